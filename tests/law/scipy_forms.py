#!/usr/bin/env python3
"""Every form, every loss, both kinds of residuals: can SciPy improve on smelt's optimum?

    pip install numpy scipy
    python tests/law/scipy_forms.py path/to/smelt

120 rows of each form with heavy-tailed noise (Student t, 3 degrees of freedom).  The objective is summed again at
smelt's coefficients and then searched by Nelder-Mead from there and from six places around it.  Fails when the sums
differ by 1e-9, or when SciPy gets lower by 1e-10 (absolute residuals: 1e-6, for which smelt's corner is 1e-8 wide).
"""
import json
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
from scipy.optimize import minimize

DELTA, QUANTILE = 1e-3, 0.25


def saturating(k, x):
    a, b, c, d, start, most = k
    effective = 1 / (1 / (x["experts"] - 1 + 1 / (1 / start - 1 / most)) + 1 / most)
    n, e = np.log(x["params"]), np.log(effective)
    return np.exp(a * n + b * e + c * n * e + d)


# Form: columns, planted coefficients, loss.
FORMS = {
    "smelt": (["flops_per_token", "sparsity", "tokens"], [1.44, 1366, 1.975e6, 0.37, 0.153, 0.66],
              lambda k, x: k[0] + k[1] * (1 - x["sparsity"]) ** k[4] / x["flops_per_token"] ** k[3]
              + k[2] / x["tokens"] ** k[5]),
    "smelt-no-sparsity": (["flops_per_token", "tokens"], [1.7, 900, 3e5, 0.35, 0.5],
                          lambda k, x: k[0] + k[1] / x["flops_per_token"] ** k[3] + k[2] / x["tokens"] ** k[4]),
    "chinchilla": (["params", "tokens"], [1.69, 406.4, 410.7, 0.34, 0.28],
                   lambda k, x: k[0] + k[1] / x["params"] ** k[3] + k[2] / x["tokens"] ** k[4]),
    "chinchilla-tied": (["params", "tokens"], [1.9, 500, 700, 0.31],
                        lambda k, x: k[0] + k[1] / x["params"] ** k[3] + k[2] / x["tokens"] ** k[3]),
    "recurrence": (["params", "recurrent_params", "visits", "tokens"], [1.6, 300, 500, 0.33, 0.3, 0.46],
                   lambda k, x: k[0] + k[1] * (x["params"] + x["visits"] ** k[5] * x["recurrent_params"]) ** -k[3]
                   + k[2] / x["tokens"] ** k[4]),
    "saturating-experts": (["params", "experts"], [-0.082, -0.108, 0.009, 2.6, 1.3, 290], saturating),
    "coupled": (["params", "tokens"], [1.2, 8e7, 2e9, 0.3, 0.4],
                lambda k, x: k[0] + ((k[1] / x["params"]) ** (k[3] / k[4]) + k[2] / x["tokens"]) ** k[4]),
    "power": (["compute"], [1.8, 60, 0.09], lambda k, x: k[0] + k[1] / x["compute"] ** k[2]),
}


def cost(residuals, loss):
    size = np.abs(residuals)
    huber = np.where(size <= DELTA, 0.5 * size**2, DELTA * (size - 0.5 * DELTA))
    return {"huber": huber, "squared": 0.5 * size**2, "absolute": size,
            "asymmetric": 2 * np.where(residuals > 0, 1 - QUANTILE, QUANTILE) * huber}[loss]


def main():
    random = np.random.default_rng(3)
    faults = 0
    for form, (columns, planted, law) in FORMS.items():
        n = 120
        x = {"flops_per_token": 1e8 * 10 ** random.uniform(0, 1.5, n), "sparsity": 1 - 10 ** random.uniform(-1.3, 0, n),
             "tokens": 1e9 * 10 ** random.uniform(0, 2, n), "params": 6e7 * 10 ** random.uniform(0, 2, n),
             "recurrent_params": 1e8 * 10 ** random.uniform(0, 1.5, n),
             "visits": random.integers(1, 5, n).astype(float), "experts": 2.0 ** random.integers(0, 9, n),
             "compute": 1e17 * 10 ** random.uniform(0, 4, n)}
        actual = law(np.array(planted), x) * np.exp(0.004 * random.standard_t(3, n))
        with tempfile.TemporaryDirectory() as folder:
            file = str(Path(folder) / "rows.csv")
            np.savetxt(file, np.stack([x[c] for c in columns] + [actual], 1), delimiter=",",
                       header=",".join(columns) + ",loss", comments="", fmt="%.17g")
            for loss in ("huber", "squared", "absolute", "asymmetric"):
                for residuals in ("log", "plain"):
                    text = subprocess.run([sys.argv[1], "fit", file, "--form", form, "--loss", loss, "--residuals",
                                           residuals, "--quantile", str(QUANTILE), "--json"],
                                          check=True, capture_output=True, text=True).stdout
                    result = json.loads(text)
                    found = np.array(list(result["coefficients"].values()))

                    def objective(k):
                        with np.errstate(all="ignore"):
                            value = law(k, x)
                            r = np.log(value) - np.log(actual) if residuals == "log" else value - actual
                            total = cost(r, loss).sum()
                        return total if np.isfinite(total) else 1e9

                    own = objective(found)
                    best = own
                    for trial in range(7):
                        at = np.ones(len(found)) if trial == 0 else 1 + random.normal(0, 0.02 * 3 ** (trial % 3), len(found))
                        for _ in range(3):
                            step = minimize(lambda z: objective(found * z), at, method="Nelder-Mead",
                                            options=dict(maxiter=4000, maxfev=4000, xatol=1e-10, fatol=1e-16))
                            at = step.x
                        best = min(best, step.fun)
                    gained, differs = 1 - best / own, own / result["objective"] - 1
                    bad = abs(differs) > 1e-9 or gained > (1e-6 if loss == "absolute" else 1e-10)
                    faults += bad
                    print(f"{form:19s} {loss:11s} {residuals:6s} starts {result['starts']['agreeing']:2d} of "
                          f"{result['starts']['tried']:2d}  sum again {differs:+.0e}  SciPy lower by {gained:.0e}"
                          f"{'  FAULT' if bad else ''}", flush=True)
    sys.exit(1 if faults else 0)


if __name__ == "__main__":
    main()
