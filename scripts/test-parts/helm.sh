#!/bin/sh
# Builds Helm from its Go module. Go verifies it and all its dependencies against its checksum database. Takes minutes of CPU time, once.
# Exit status: 0 if it is installed in the end.
set -eu
module=helm.sh/helm/v3
version=v3.22.0
directory=${XDG_CACHE_HOME:-$HOME/.cache}/edge-test-parts/helm-$version
[ ! -x "$directory/helm" ] || exit 0

PATH=$PATH:/usr/local/go/bin
if ! command -v go >/dev/null; then
  printf '\nNot installed: Helm. To run all tests, install Go 1.25 or later, then run this script again.\n\n' >&2
  exit 1
fi

mkdir -p "$directory"
scratch=$(mktemp -d "$directory/build.XXXXXX")
trap 'rm -rf "$scratch"' EXIT
trap 'exit 1' INT TERM
{
  printf 'Building Helm %s. This takes some minutes.\n' "$version"
  CGO_ENABLED=0 GOBIN="$scratch" nice go install -buildvcs=false -ldflags '-s -w' "$module/cmd/helm@$version"
  mv "$scratch/helm" "$directory/helm"
} >&2
