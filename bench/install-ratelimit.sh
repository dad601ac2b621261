#!/bin/sh
# envoyproxy/ratelimit, which `npm run bench` compares with, built from its Go module. Go checks it and all that it needs against
# its checksum database. Where it cannot be built, this says so and the benchmark goes on without.
set -eu
module=github.com/envoyproxy/ratelimit
version=v1.4.1-0.20260122083618-3fb702589d36
directory=${XDG_CACHE_HOME:-$HOME/.cache}/edge-test-parts/ratelimit-$version
[ ! -x "$directory/ratelimit" ] || exit 0

PATH=$PATH:/usr/local/go/bin
if ! command -v go >/dev/null; then
  printf '\nNot installed: envoyproxy/ratelimit. For all of the figures install Go, then run this again.\n\n' >&2
  exit 0
fi

mkdir -p "$directory"
scratch=$(mktemp -d "$directory/build.XXXXXX")
trap 'rm -rf "$scratch"' EXIT
trap 'exit 1' INT TERM
{
  printf 'Building envoyproxy/ratelimit %s. This takes some minutes.\n' "$version"
  if CGO_ENABLED=0 GOBIN="$scratch" nice go install -buildvcs=false -ldflags '-s -w' "$module/src/service_cmd@$version"; then
    mv "$scratch/service_cmd" "$directory/ratelimit"
  else
    printf '\nCould not build envoyproxy/ratelimit.\n\n'
  fi
} >&2
