#!/usr/bin/env python3
"""Finds the optima of tests/law/known_optima_test.cpp again with SciPy, from this folder's data.

    pip install numpy scipy
    python tests/law/scipy_check.py [path/to/smelt]

Chinchilla form, sum of Huber(delta) on ln L.  L-BFGS-B on the objective over delta^2 from a grid of starts, at a
falling delta, then polished.  With the program's path its result is set beside SciPy's.
"""
import csv
import json
import pathlib
import subprocess
import sys

import numpy as np
from scipy.optimize import minimize
from scipy.special import logsumexp

DATA = pathlib.Path(__file__).resolve().parent.parent / "data" / "law"
SETS = ["hot", "cool_end", "lr_ablation_hot", "hot_120b_plus"]


def read(name):
    with open(DATA / f"gemstones_{name}.csv") as file:
        rows = list(csv.DictReader(file))
    return [np.array([float(r[k]) for r in rows]) for k in ("params_active_precise", "tokens", "final_loss")]


def objective(theta, x, y, log_loss, delta):
    """theta = ln E, ln A and ln B at the centre, alpha, beta; value over delta^2 and gradient."""
    parts = np.stack([np.full_like(x, theta[0]), theta[1] - theta[3] * x, theta[2] - theta[4] * y])
    model = logsumexp(parts, axis=0)
    share = np.exp(parts - model)
    z = (model - log_loss) / delta
    psi = np.clip(z, -1, 1)
    value = np.sum(np.where(np.abs(z) <= 1, z * z / 2, np.abs(z) - 0.5))
    slopes = np.stack([share[0], share[1], share[2], -share[1] * x, -share[2] * y])
    return value, slopes @ psi / delta


def fit(size, tokens, loss, delta):
    x, y = np.log(size), np.log(tokens)
    x, y = x - x.mean(), y - y.mean()
    best = None
    for alpha in (0.1, 0.3, 0.6):
        for beta in (0.1, 0.3, 0.6, 1.0):
            theta = np.array([np.log(loss.min() * 0.8), -1.0, -1.0, alpha, beta])
            for step in [d for d in (3e-2, 1e-2, 3e-3, 1e-3, 3e-4, 1e-4) if d > delta] + [delta] * 6:
                theta = minimize(objective, theta, args=(x, y, np.log(loss), step), jac=True, method="L-BFGS-B",
                                 options=dict(maxiter=5000, maxfun=20000, ftol=1e-16, gtol=1e-12, maxcor=30)).x
            value = objective(theta, x, y, np.log(loss), delta)[0] * delta**2
            if best is None or value < best[0]:
                best = value, theta[3], theta[4], np.exp(theta[0])
    return best


def main():
    for name in SETS:
        for delta in (1e-3, 1e-4):
            value, alpha, beta, floor = fit(*read(name), delta)
            line = f"{name:18s} delta {delta:g}  scipy {value:.12f} alpha {alpha:.5f} beta {beta:.5f} E {floor:.5f}"
            if len(sys.argv) > 1:
                text = subprocess.run(
                    [sys.argv[1], "fit", str(DATA / f"gemstones_{name}.csv"), "--form", "chinchilla", "--columns",
                     "N=params_active_precise,D=tokens,loss=final_loss", "--delta", str(delta), "--json"],
                    check=True, capture_output=True, text=True).stdout
                ours = json.loads(text)
                line += f"  smelt {ours['objective']:.12f} ({ours['objective'] / value - 1:+.1e})"
                assert ours["objective"] <= value * (1 + 3e-9), name
            print(line, flush=True)


if __name__ == "__main__":
    main()
