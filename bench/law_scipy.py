#!/usr/bin/env python3
"""smelt fit beside SciPy on the same rows, in one run.

    pip install numpy scipy
    python bench/law_scipy.py build/release/bin/smelt

One fit: 240 rows of a Chinchilla law with noise, sum of Huber(1e-3) over ln loss, 16 starts.  SciPy minimises the
same objective (over delta^2, centred, with its gradient) by L-BFGS-B from 16 starts, which is how it is done by hand.
Then 1000 bootstrap refits over rows, each searched anew from 5 starts; SciPy does 20 of them, scaled up.  smelt's
seconds are those of its own result, without reading the file.
"""
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
from scipy.optimize import minimize
from scipy.special import logsumexp

DELTA = 1e-3


def rows():
    random = np.random.default_rng(0)
    size, tokens = np.meshgrid(5e7 * 2.0 ** np.arange(15), 1e9 * 2.0 ** np.arange(16))
    loss = (1.69 + 406.4 / size**0.34 + 410.7 / tokens**0.28) * np.exp(0.003 * random.standard_normal(size.shape))
    return size.ravel(), tokens.ravel(), loss.ravel()


def objective(theta, x, y, log_loss, weight):
    parts = np.stack([np.full_like(x, theta[0]), theta[1] - theta[3] * x, theta[2] - theta[4] * y])
    model = logsumexp(parts, axis=0)
    share = np.exp(parts - model)
    z = (model - log_loss) / DELTA
    psi = weight * np.clip(z, -1, 1)
    value = np.sum(weight * np.where(np.abs(z) <= 1, z * z / 2, np.abs(z) - 0.5))
    slopes = np.stack([share[0], share[1], share[2], -share[1] * x, -share[2] * y])
    return value, slopes @ psi / DELTA


def scipy_fit(x, y, log_loss, weight, starts):
    best = np.inf
    for alpha in np.linspace(0.1, 0.9, starts // 4 or 1):
        for beta in np.linspace(0.1, 0.9, 4 if starts >= 4 else starts):
            start = np.array([log_loss.min() - 0.2, -1.0, -1.0, alpha, beta])
            found = minimize(objective, start, args=(x, y, log_loss, weight), jac=True, method="L-BFGS-B",
                             options=dict(maxiter=2000, maxfun=5000, ftol=1e-15, gtol=1e-10))
            best = min(best, found.fun)
    return best * DELTA**2


def smelt(program, file, *flags):
    text = subprocess.run([program, "fit", file, "--form", "chinchilla", "--json", *flags], check=True,
                          capture_output=True, text=True).stdout
    return json.loads(text)


def main():
    program = sys.argv[1]
    size, tokens, loss = rows()
    x, y, log_loss = np.log(size), np.log(tokens), np.log(loss)
    x, y = x - x.mean(), y - y.mean()
    with tempfile.TemporaryDirectory() as folder:
        file = str(Path(folder) / "rows.csv")
        np.savetxt(file, np.stack([size, tokens, loss], 1), delimiter=",", header="params,tokens,loss", comments="",
                   fmt="%.17g")
        ours = sorted(smelt(program, file)["seconds"] for _ in range(15))[7]
        start = time.perf_counter()
        subprocess.run([program, "fit", file, "--form", "chinchilla"], check=True, capture_output=True)
        whole = time.perf_counter() - start
        result = smelt(program, file)
        start = time.perf_counter()
        theirs_value = scipy_fit(x, y, log_loss, np.ones_like(x), 16)
        theirs = time.perf_counter() - start
        draws = smelt(program, file, "--bootstrap", "1000", "--unit", "point")["seconds"]
        random = np.random.default_rng(1)
        start = time.perf_counter()
        for _ in range(20):
            weight = np.bincount(random.integers(0, len(x), len(x)), minlength=len(x)).astype(float)
            scipy_fit(x, y, log_loss, weight, 4)
        their_draws = 50 * (time.perf_counter() - start)
    print(f"one fit of {len(x)} rows: smelt {1e3 * ours:.2f} ms ({result['starts']['agreeing']} of "
          f"{result['starts']['tried']} starts agree), SciPy {1e3 * theirs:.0f} ms: {theirs / ours:.0f} times; objective "
          f"{result['objective'] / theirs_value - 1:+.1e} against SciPy's; program start to end {1e3 * whole:.0f} ms")
    print(f"1000 refits: smelt {draws:.2f} s, SciPy {their_draws:.0f} s: {their_draws / draws:.0f} times")


if __name__ == "__main__":
    main()
