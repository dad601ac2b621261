#!/bin/sh
# Builds h2spec, which tests HTTP/2 servers, from its Go module. That pins no versions of its dependencies, so they are pinned here; Go verifies
# all of them against its checksum database. Exit status: 0 if it is installed in the end.
set -eu
version=v2.2.1
directory=${XDG_CACHE_HOME:-$HOME/.cache}/edge-test-parts/h2spec-$version
[ ! -x "$directory/h2spec" ] || exit 0

PATH=$PATH:/usr/local/go/bin
if ! command -v go >/dev/null; then
  printf '\nNot installed: h2spec. To run all tests, install Go 1.25 or later, then run this script again.\n\n' >&2
  exit 1
fi

mkdir -p "$directory"
scratch=$(mktemp -d "$directory/build.XXXXXX")
trap 'rm -rf "$scratch"' EXIT
trap 'exit 1' INT TERM
{
  cd "$scratch"
  go mod init h2spec-build
  go get "github.com/summerwind/h2spec/cmd/h2spec@$version+incompatible" \
    golang.org/x/net@v0.62.0 github.com/spf13/cobra@v1.10.2 github.com/fatih/color@v1.19.0
  CGO_ENABLED=0 nice go build -o "$scratch/h2spec" github.com/summerwind/h2spec/cmd/h2spec
  mv "$scratch/h2spec" "$directory/h2spec"
} >&2
