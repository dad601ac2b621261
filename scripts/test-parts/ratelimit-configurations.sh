#!/bin/sh
# The configurations that envoyproxy/ratelimit publishes, in its Go module, which Go checks against its checksum database.
# Exit status: 0 if they are there in the end.
set -eu
module=github.com/envoyproxy/ratelimit
version=v1.4.1-0.20260122083618-3fb702589d36

PATH=$PATH:/usr/local/go/bin
if ! command -v go >/dev/null; then
  printf '\nNot installed: the configurations of envoyproxy/ratelimit. To run all tests, install Go, then run this script again.\n\n' >&2
  exit 1
fi
[ -d "$(go env GOMODCACHE)/$module@$version" ] || go mod download "$module@$version" >&2
