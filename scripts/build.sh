#!/usr/bin/env bash
# Configures and builds one preset of CMakePresets.json:
#
#   scripts/build.sh release 2 -DSMELT_BENCH=ON      preset, jobs, further CMake definitions
#
# Configuring again happens only when the set-up, the preset, the definitions or the compiler cache changed.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
preset=$1
jobs=$2
shift 2
folder=build/$preset

asked="${CMAKE_PREFIX_PATH:-} ${CXX:-} $(command -v ccache || true) $*"
if [ ! -f "$folder/build.ninja" ] || [ .venv/setup.stamp -nt "$folder/asked" ] ||
  [ CMakePresets.json -nt "$folder/asked" ] || [ "$(cat "$folder/asked")" != "$asked" ]; then
  cmake --preset "$preset" "$@" >&2
  printf '%s\n' "$asked" >"$folder/asked"
fi
cmake --build "$folder" --parallel "$jobs" >&2
