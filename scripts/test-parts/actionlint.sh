#!/bin/sh
# Builds actionlint, which checks workflows of GitHub, from its Go module. Go verifies it and all its dependencies against its checksum
# database. Exit status: 0 if it is installed in the end.
set -eu
module=github.com/rhysd/actionlint
version=v1.7.12
directory=${XDG_CACHE_HOME:-$HOME/.cache}/edge-test-parts/actionlint-$version
[ ! -x "$directory/actionlint" ] || exit 0

PATH=$PATH:/usr/local/go/bin
if ! command -v go >/dev/null; then
  printf '\nNot installed: actionlint. To run all tests, install Go 1.25 or later, then run this script again.\n\n' >&2
  exit 1
fi

mkdir -p "$directory"
scratch=$(mktemp -d "$directory/build.XXXXXX")
trap 'rm -rf "$scratch"' EXIT
trap 'exit 1' INT TERM
{
  CGO_ENABLED=0 GOBIN="$scratch" nice go install -buildvcs=false -ldflags '-s -w' "$module/cmd/actionlint@$version"
  mv "$scratch/actionlint" "$directory/actionlint"
} >&2
