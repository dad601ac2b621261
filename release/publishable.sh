#!/bin/sh
# Fails, with all reasons, unless this commit may be published as the release of its version: the changelog, the chart and the tag name that version, and the
# public key by which users verify the release is there.
# Usage: release/publishable.sh [TAG]
set -eu
[ $# -le 1 ] || { sed -n 's/^# Usage: /Usage: /p' "$0" >&2; exit 1; }
cd "$(dirname "$0")/.."
version=$(node -p 'require("./package.json").version')
chart=$(sed -n 's/^version: *//p' deploy/helm/edge/Chart.yaml)
newest=$(sed -n 's/^## //p' CHANGELOG.md | grep -vx Unreleased | head -n 1 | cut -d ' ' -f 1)
status=0
refuse() {
  echo "$1" >&2
  status=1
}

[ "${1-v$version}" = "v$version" ] ||
  refuse "The tag is $1, but package.json has version $version. Tag the commit that changes the version."
[ "$chart" = "$version" ] ||
  refuse "deploy/helm/edge/Chart.yaml has version $chart, but package.json has $version."
[ "$newest" = "$version" ] ||
  refuse "CHANGELOG.md: the newest release is ${newest:-not there}, but package.json has version $version. Call what is unreleased \"## $version\"."
[ "$(grep -cE "^## $version( |\$)" CHANGELOG.md)" -le 1 ] ||
  refuse "CHANGELOG.md: there is a release $version already. Raise the version."
[ -z "$(awk '/^## / { inside = ($2 == "Unreleased"); next } inside && NF' CHANGELOG.md)" ] ||
  refuse "CHANGELOG.md: something is still below \"## Unreleased\". Raise the version, and call that part by it."
[ -s release/allowed_signers ] ||
  refuse 'release/allowed_signers: missing. Without the public key, nobody can verify the signature. CONTRIBUTING.md says how to make it.'
exit "$status"
