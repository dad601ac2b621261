#!/bin/sh
# Builds a gRPC client on third-party code from test/support/grpc/go-client, with the modules that its go.sum pins. Takes a minute of CPU time, once.
# Exit status: 0 if it is installed in the end.
set -eu
cd "$(dirname "$0")/../../test/support/grpc/go-client"
# The name is a digest of the source, so that a changed source is built again.
digest=$(cat main.go go.mod go.sum | sha256sum | cut -c 1-16)
directory=${XDG_CACHE_HOME:-$HOME/.cache}/edge-test-parts/go-grpc-client-$digest
[ ! -x "$directory/go-grpc-client" ] || exit 0

PATH=$PATH:/usr/local/go/bin
if ! command -v go >/dev/null; then
  printf '\nNot installed: the gRPC client in Go. To run all tests, install Go 1.26 or later, then run this script again.\n\n' >&2
  exit 1
fi

mkdir -p "$directory"
scratch=$(mktemp -d "$directory/build.XXXXXX")
trap 'rm -rf "$scratch"' EXIT
trap 'exit 1' INT TERM
{
  printf 'Building a gRPC client in Go. This takes a minute.\n'
  CGO_ENABLED=0 nice go build -mod=readonly -buildvcs=false -ldflags '-s -w' -o "$scratch/go-grpc-client" .
  mv "$scratch/go-grpc-client" "$directory/go-grpc-client"
} >&2
