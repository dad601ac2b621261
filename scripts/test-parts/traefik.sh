#!/bin/sh
# Builds Traefik from its Go module. Go verifies it and all its dependencies against its checksum database. Takes minutes of CPU time, once.
# Exit status: 0 if it is installed in the end.
set -eu
module=github.com/traefik/traefik/v3
version=v3.6.12
directory=${XDG_CACHE_HOME:-$HOME/.cache}/edge-test-parts/traefik-$version
[ ! -x "$directory/traefik" ] || exit 0

PATH=$PATH:/usr/local/go/bin
if ! command -v go >/dev/null; then
  printf '\nNot installed: Traefik. To run all tests, install Go 1.25 or later, then run this script again.\n\n' >&2
  exit 1
fi

mkdir -p "$directory"
scratch=$(mktemp -d "$directory/build.XXXXXX")
trap 'rm -rf "$scratch"' EXIT
trap 'exit 1' INT TERM
{
  printf 'Building Traefik %s. This takes some minutes.\n' "$version"
  # `go install` refuses a module whose go.mod has replace directives, so it is built in a copy, which has to be writable.
  if ! go mod download -json "$module@$version" >"$scratch/module.json"; then
    # The output contains the reason.
    cat "$scratch/module.json"
    exit 1
  fi
  sources=$(sed -n 's/^[[:space:]]*"Dir": "\(.*\)",*$/\1/p' "$scratch/module.json")
  cp -R "$sources" "$scratch/source"
  chmod -R u+w "$scratch/source"
  cd "$scratch/source"
  CGO_ENABLED=0 nice go build -buildvcs=false -ldflags "-s -w -X $module/pkg/version.Version=$version" -o "$scratch/traefik" ./cmd/traefik
  mv "$scratch/traefik" "$directory/traefik"
} >&2
