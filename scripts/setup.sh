#!/usr/bin/env bash
# Everything a fresh Debian or Ubuntu machine needs before the first build: apt packages that are missing and a
# .venv with LibTorch (out of the torch wheel), the plot bundle and pinned build tools.  Re-running costs milliseconds.
#
#   scripts/setup.sh                    make calls it before every build
#   TORCH=/path/to/torch.whl            another torch: a wheel file, or a requirement like torch==2.14.0
#   CMAKE_PREFIX_PATH=/path/to/libtorch an own LibTorch: then no torch is installed
#   PYTHON=python3.12                   another interpreter for .venv
#   SMELT_SKIP_APT=1                    do not look at apt packages (their libraries come from elsewhere)
#
# pip's and apt's own configuration decides where packages come from.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
exec 9<scripts/setup.sh
command -v flock >/dev/null && flock 9 # two makes at once: the second waits

# Commands of an earlier set-up must not answer for the system's.
PATH=${PATH//"$PWD/.venv/bin:"/}

say() { printf '[setup] %s\n' "$*" >&2; }
die() {
  say "$@"
  exit 1
}

apt_packages=(
  g++ make pkg-config libeigen3-dev nlohmann-json3-dev libfmt-dev libcli11-dev libtomlplusplus-dev
  libsentencepiece-dev libsimdjson-dev libzstd-dev zlib1g-dev libxxhash-dev libgtest-dev libgmock-dev
  libbenchmark-dev libopenmpi-dev openmpi-bin)

run_as_root() {
  if [ "$(id -u)" -eq 0 ]; then "$@"; else sudo "$@"; fi
}

can_be_root() { [ "$(id -u)" -eq 0 ] || command -v sudo >/dev/null; }

is_installed() {
  [ "$(dpkg-query -W -f='${db:Status-Status}' "$1" 2>/dev/null)" = installed ]
}

has_python_venv() { "${PYTHON:-python3}" -c 'import ensurepip, venv' 2>/dev/null; }

install_apt_packages() {
  local missing=() package
  # One query for all; only when something is missing, one per package.
  if ! dpkg-query -W -f='${db:Status-Status}\n' "${apt_packages[@]}" 2>/dev/null |
    awk -v n="${#apt_packages[@]}" '$1=="installed"{k++} END{exit k<n}'; then
    for package in "${apt_packages[@]}"; do
      is_installed "$package" || missing+=("$package")
    done
  fi
  command -v "${PYTHON:-python3}" >/dev/null || missing+=(python3 python3-venv)
  if command -v python3 >/dev/null && ! has_python_venv; then missing+=(python3-venv); fi
  command -v cmake >/dev/null || missing+=(cmake)
  [ "${#missing[@]}" -gt 0 ] || return 0

  if ! can_be_root; then
    die "these packages are missing, and neither root nor sudo is here to install them: ${missing[*]}"
  fi
  say "installing ${missing[*]}"
  local install=(env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends)
  # The package lists on this machine are often good enough; fetch new ones only when they are not.
  if ! run_as_root "${install[@]}" "${missing[@]}" >/dev/null 2>&1; then
    run_as_root apt-get update -qq >&2 || say "apt-get update failed; trying with the lists there are"
    run_as_root "${install[@]}" "${missing[@]}" >&2 || die "apt-get could not install: ${missing[*]}"
  fi
}

if [ "${SMELT_SKIP_APT:-0}" != 1 ]; then
  if command -v dpkg-query >/dev/null && command -v apt-get >/dev/null; then
    install_apt_packages
  else
    say "no apt-get here; expected to be there already: ${apt_packages[*]} cmake python3"
  fi
fi

# The interpreter of .venv.  One without venv and ensurepip (a bare build) gives way to the system's.
python=${PYTHON:-python3}
if ! has_python_venv && /usr/bin/python3 -c 'import ensurepip, venv' 2>/dev/null; then
  python=/usr/bin/python3
fi
command -v "$python" >/dev/null || die "no Python found; set PYTHON to a Python of at least 3.9"

# Prints the LibTorch that CMAKE_PREFIX_PATH names, if there is one.
own_libtorch() {
  local folder
  while IFS= read -r -d ':' folder; do
    for folder in "$folder" "$folder/../.."; do
      if [ -f "$folder/share/cmake/Torch/TorchConfig.cmake" ]; then
        printf '%s' "$folder"
        return
      fi
    done
  done <<<"${CMAKE_PREFIX_PATH:+$CMAKE_PREFIX_PATH:}"
}
libtorch=$(own_libtorch)
torch=${TORCH:-torch==2.13.0}

# cmake from pip only where the system's is too old for the presets.
cmake_requirement=
cmake_version=$(cmake --version 2>/dev/null | awk 'NR==1{print $3}')
if [ "$(printf '3.25\n%s\n' "${cmake_version:-0}" | sort -V | head -1)" != 3.25 ]; then
  cmake_requirement=cmake==4.4.5
fi

# What this .venv is made of; anything else changes it.  Scripts in bin/ name the folder they were made in, so a
# moved clone starts over, and so does another Python.
base="$PWD $(readlink -f "$(command -v "$python")") $("$python" -V 2>&1)"
stamp=$(
  echo "$base"
  echo "torch ${libtorch:-$torch}"
  echo "cmake $cmake_requirement"
  cat scripts/requirements.txt scripts/corpus/requirements.txt
)
if [ -f .venv/setup.stamp ] && [ "$(cat .venv/setup.stamp)" = "$stamp" ] && .venv/bin/python -c '' 2>/dev/null; then
  exit 0
fi

"$python" -c 'import sys; sys.exit(sys.version_info < (3, 9))' ||
  die "Python of at least 3.9 is needed, $python is $("$python" -V 2>&1)"
say "making .venv (LibTorch: ${libtorch:-$torch}); the first time takes a few minutes"
rm -f .venv/setup.stamp
if [ "$(cat .venv/setup.base 2>/dev/null)" != "$base" ] || ! .venv/bin/python -m pip --version >/dev/null 2>&1; then
  "$python" -m venv --clear .venv >&2 || die "$python -m venv failed (above)"
  printf '%s\n' "$base" >.venv/setup.base
fi

install() {
  .venv/bin/python -m pip install --quiet --disable-pip-version-check "$@" >&2 ||
    die "pip could not install: $*"
}
install -r scripts/requirements.txt -r scripts/corpus/requirements.txt ${cmake_requirement:+"$cmake_requirement"}
if [ -z "$libtorch" ]; then install "$torch"; fi
printf '%s\n' "$stamp" >.venv/setup.stamp
say "ready"
