#!/usr/bin/env bash
# Runs the tests of one build folder and ends with their counts:
#
#   scripts/test.sh release 'unit|slow' 2            preset, labels (a regular expression), jobs
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
preset=$1
labels=$2
jobs=$3
results=$PWD/build/$preset/test-results.xml

# The real TensorBoard, which one test reads event files with; without it (no network) that test is skipped.
packages=build/$preset/python
requirement=tensorboard==2.21.0
if [ -d build/"$preset"/bin ] && [ "$(cat "$packages/installed" 2>/dev/null)" != "$requirement" ]; then
  rm -rf "$packages"
  if .venv/bin/python -m pip install --quiet --disable-pip-version-check --target "$packages" "$requirement" >&2; then
    echo "$requirement" >"$packages/installed"
  fi
fi

status=0
ctest --test-dir "build/$preset" --label-regex "$labels" --parallel "$jobs" --output-on-failure --no-tests=error \
  --output-junit "$results" || status=$?
[ -f "$results" ] || exit "$status"
# The first element of the file carries the totals.
count() { sed -n "s/.*[[:space:]]$1=\"\([0-9]*\)\".*/\1/p" "$results" | head -1; }
total=$(count tests) failed=$(count failures) skipped=$(count skipped) disabled=$(count disabled)
echo "tests: $((total - failed - skipped - disabled)) passed, $failed failed, $((skipped + disabled)) skipped"
exit "$status"
