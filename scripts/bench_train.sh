#!/usr/bin/env bash
# Training steps of smelt beside transformers in one run; figures into build/bench/train.json:
#
#   scripts/bench_train.sh release [--repeats 5 …]     preset, options of bench/train.py
#
# transformers comes into build/bench/python, beside .venv's torch; nothing else uses it.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
folder=build/$1
shift
packages=build/bench/python
requirement=transformers==5.24.0
if [ "$(cat "$packages/installed" 2>/dev/null)" != "$requirement" ]; then
  rm -rf "$packages"
  .venv/bin/python -m pip install --quiet --disable-pip-version-check --target "$packages" "$requirement" >&2
  echo "$requirement" >"$packages/installed"
fi
.venv/bin/python bench/train.py "$folder" build/bench/train.json --python-path "$packages" "$@"
