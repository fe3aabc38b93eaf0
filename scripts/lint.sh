#!/usr/bin/env bash
# clang-tidy over the project's sources, by the compile commands of the preset tidy:
#
#   scripts/lint.sh 2 [FILE…]               jobs, and which files (all by default)
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
jobs=$1
shift
cmake --preset tidy >/dev/null
cmake --build build/tidy --target smelt_commit >/dev/null # the one generated header
if [ $# -eq 0 ]; then
  # Files of folders that the preset leaves out have no compile command.
  mapfile -t files < <(sed -n 's/^ *"file": "\(.*\)",\{0,1\}$/\1/p' build/tidy/compile_commands.json |
    grep -E '/(smelt|cli)/[^.]*\.cpp$' | sort -u)
else
  files=("$@")
fi
printf '%s\0' "${files[@]}" |
  xargs -0 -n 1 -P "$jobs" .venv/bin/clang-tidy -p build/tidy --quiet --warnings-as-errors='*'
echo "lint: ${#files[@]} files clean"
