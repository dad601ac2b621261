#!/bin/sh
# Installs the official Python libraries of OpenAI and Anthropic, apart from the system's packages. All versions are pinned; hashes are not, because some of
# the packages are compiled for each platform and each version of Python. Exit status: 0 if they are installed in the end.
set -eu
version=openai-3.51.0-anthropic-2.9.0
directory=${XDG_CACHE_HOME:-$HOME/.cache}/edge-test-parts/python-sdks-$version
[ ! -d "$directory/python-sdks" ] || exit 0

if ! command -v python3 >/dev/null || ! python3 -m pip --version >/dev/null 2>&1; then
  printf '\nNot installed: the Python libraries of OpenAI and Anthropic. To run all tests, install Python 3 with pip, then run this script again.\n\n' >&2
  exit 1
fi

mkdir -p "$directory"
scratch=$(mktemp -d "$directory/download.XXXXXX")
trap 'rm -rf "$scratch"' EXIT
trap 'exit 1' INT TERM
cat >"$scratch/requirements.txt" <<END
annotated-types==0.8.0
anthropic==2.9.0
anyio==4.16.0
docstring_parser==0.18.0
h11==0.16.0
httpcore2==2.16.0
httpx2==2.16.0
idna==3.20
jiter==0.19.0
openai==3.51.0
opentelemetry-api==1.45.2
pydantic==2.14.3
pydantic_core==2.50.4
sniffio==1.3.1
truststore==0.10.5
typing-inspection==0.4.5
typing_extensions==4.16.0
END
python3 -m pip install --quiet --disable-pip-version-check --no-deps --only-binary :all: \
  --target "$scratch/python-sdks" --requirement "$scratch/requirements.txt" >&2
mv "$scratch/python-sdks" "$directory/python-sdks"
