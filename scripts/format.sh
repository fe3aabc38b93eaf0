#!/usr/bin/env bash
# clang-format over every C++ file of the project:
#
#   scripts/format.sh -i                    rewrites them
#   scripts/format.sh --dry-run -Werror     fails when one would change
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
find smelt cli tests bench cmake \( -name '*.h' -o -name '*.cpp' -o -name '*.cc' \) -print0 |
  xargs -0 .venv/bin/clang-format "$@"
