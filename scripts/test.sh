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

status=0
ctest --test-dir "build/$preset" --label-regex "$labels" --parallel "$jobs" --output-on-failure --no-tests=error \
  --output-junit "$results" || status=$?
[ -f "$results" ] || exit "$status"
# The first element of the file carries the totals.
count() { sed -n "s/.*[[:space:]]$1=\"\([0-9]*\)\".*/\1/p" "$results" | head -1; }
total=$(count tests) failed=$(count failures) skipped=$(count skipped) disabled=$(count disabled)
echo "tests: $((total - failed - skipped - disabled)) passed, $failed failed, $((skipped + disabled)) skipped"
exit "$status"
