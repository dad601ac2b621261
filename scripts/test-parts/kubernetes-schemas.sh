#!/bin/sh
# Makes JSON Schemas of what Kubernetes and the Prometheus Operator accept, from their Go modules: Kubernetes publishes a description of its API,
# and the operator its CustomResourceDefinitions. Go verifies both against its checksum database. Exit status: 0 if they are there in the end.
set -eu
version=v1.34.4-operator-v0.85.0
kubernetes=${version%-operator-*}
operator=${version#*-operator-}
directory=${XDG_CACHE_HOME:-$HOME/.cache}/edge-test-parts/kubernetes-schemas-$version
[ ! -d "$directory/kubernetes-schemas" ] || exit 0

here=$(cd "$(dirname "$0")" && pwd)
PATH=$PATH:/usr/local/go/bin
if ! command -v go >/dev/null; then
  printf '\nNot installed: schemas of Kubernetes. To run all tests, install Go 1.25 or later, then run this script again.\n\n' >&2
  exit 1
fi

# Prints the directory of a module.
module_directory() {
  go mod download -json "$1" | sed -n 's/^[[:space:]]*"Dir": "\(.*\)",*$/\1/p'
}

mkdir -p "$directory"
scratch=$(mktemp -d "$directory/build.XXXXXX")
trap 'rm -rf "$scratch"' EXIT
trap 'exit 1' INT TERM
{
  api=$(module_directory "k8s.io/kubernetes@$kubernetes")/api/openapi-spec/swagger.json
  crds=$(module_directory "github.com/prometheus-operator/prometheus-operator@$operator")/example/prometheus-operator-crd
  mkdir "$scratch/schemas"
  node "$here/kubernetes-schemas.mjs" "$scratch/schemas" "$api" "$crds/monitoring.coreos.com_servicemonitors.yaml" \
    "$crds/monitoring.coreos.com_prometheusrules.yaml"
  mv "$scratch/schemas" "$directory/kubernetes-schemas"
} >&2
