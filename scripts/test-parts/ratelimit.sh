#!/bin/sh
# Builds envoyproxy/ratelimit from its Go module, which also contains the configurations that it publishes. Go verifies it and all its
# dependencies against its checksum database. Takes minutes of CPU time, once. Exit status: 0 if it is installed in the end.
set -eu
module=github.com/envoyproxy/ratelimit
version=v1.4.1-0.20260122083618-3fb702589d36
directory=${XDG_CACHE_HOME:-$HOME/.cache}/edge-test-parts/ratelimit-$version

PATH=$PATH:/usr/local/go/bin
if ! command -v go >/dev/null; then
  printf '\nNot installed: envoyproxy/ratelimit. To run all tests, install Go 1.25 or later, then run this script again.\n\n' >&2
  exit 1
fi
[ ! -x "$directory/ratelimit" ] || [ ! -d "$(go env GOMODCACHE)/$module@$version" ] || exit 0

mkdir -p "$directory"
scratch=$(mktemp -d "$directory/build.XXXXXX")
trap 'rm -rf "$scratch"' EXIT
trap 'exit 1' INT TERM
{
  printf 'Building envoyproxy/ratelimit %s. This takes some minutes.\n' "$version"
  CGO_ENABLED=0 GOBIN="$scratch" nice go install -buildvcs=false -ldflags '-s -w' "$module/src/service_cmd@$version"
  mv "$scratch/service_cmd" "$directory/ratelimit"
} >&2
