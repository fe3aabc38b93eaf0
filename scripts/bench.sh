#!/usr/bin/env bash
# Runs every benchmark program of one build folder and keeps the figures as JSON beside it:
#
#   scripts/bench.sh release                preset
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
folder=build/$1
found=0
for program in "$folder"/bin/*_bench; do
  [ -x "$program" ] || continue
  found=1
  name=$(basename "$program")
  "$program" --benchmark_out="$folder/$name.json" --benchmark_out_format=json
done
[ "$found" = 1 ] || { echo "[bench] no benchmark program in $folder/bin" >&2; exit 1; }
