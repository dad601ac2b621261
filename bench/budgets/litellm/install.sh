#!/bin/sh
# Installs LiteLLM's proxy from PyPI into a virtual environment of its own, for `npm run bench:budgets`. All versions are pinned; hashes are not, because some of
# the packages are compiled for each platform and each version of Python. This is the newest release whose requirements could all be installed on 2026-11-18:
# later ones ask for a version of certifi that PyPI did not have. Exit status: 0 if it is installed in the end.
set -eu
version=1.106.2
directory=${XDG_CACHE_HOME:-$HOME/.cache}/edge-test-parts/litellm-$version
[ ! -e "$directory/complete" ] || exit 0

if ! command -v python3 >/dev/null || ! python3 -m venv --help >/dev/null 2>&1; then
  printf '\nNot installed: LiteLLM. To compare with it, install Python 3.10 or later with venv and pip, then run this script again.\n\n' >&2
  exit 1
fi

# A virtual environment cannot be moved, so it is made in place and marked when it is complete.
rm -rf "$directory"
mkdir -p "$directory"
trap 'exit 1' INT TERM
printf 'Installing LiteLLM %s. This takes some minutes and 700 MB.\n' "$version" >&2
python3 -m venv "$directory/venv"
"$directory/venv/bin/pip" install --quiet --disable-pip-version-check --no-deps --only-binary :all: \
  --requirement "$(dirname "$0")/requirements.txt" >&2
: >"$directory/complete"
