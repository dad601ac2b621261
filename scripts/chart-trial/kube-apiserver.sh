#!/bin/sh
# Builds kube-apiserver from its Go module and unpacks Debian's etcd, for scripts/chart-trial.mjs. The build takes about half an hour of CPU time,
# once, so it belongs to no test and is not done by scripts/install-test-parts.sh. Go verifies all modules against its checksum database.
# Prints the directory that holds both programs. Exit status: 0 if both are there in the end.
set -eu
version=v1.34.4
directory=${XDG_CACHE_HOME:-$HOME/.cache}/edge-test-parts/kube-apiserver-$version

PATH=$PATH:/usr/local/go/bin
scratch=
trap '[ -z "$scratch" ] || rm -rf "$scratch"' EXIT
trap 'exit 1' INT TERM
mkdir -p "$directory"

if [ ! -x "$directory/etcd" ]; then
  scratch=$(mktemp -d "$directory/download.XXXXXX")
  # The package is only unpacked: installing it would add a user and a service to the machine. apt drops its privileges to write here.
  chmod 755 "$scratch"
  (cd "$scratch" && apt-get -o APT::Sandbox::User=root download etcd-server && dpkg-deb -x ./*.deb .) >&2
  mv "$scratch/usr/bin/etcd" "$directory/etcd"
  rm -rf "$scratch"
fi

if [ ! -x "$directory/kube-apiserver" ]; then
  scratch=$(mktemp -d "$directory/build.XXXXXX")
  {
    printf 'Building kube-apiserver %s. This takes about half an hour.\n' "$version"
    cd "$scratch"
    # The module replaces its own parts by directories that only its repository has. They are published as v0.x of the same release.
    parts=v0.${version#v1.}
    sources=$(go mod download -json "k8s.io/kubernetes@$version" | sed -n 's/^[[:space:]]*"Dir": "\(.*\)",*$/\1/p')
    sed -e 's/^module .*/module kube-apiserver-build/' -e "s,=> ./staging/src/\(k8s.io/[^ ]*\),=> \1 $parts," "$sources/go.mod" >go.mod
    go mod edit -require="k8s.io/kubernetes@$version"
    cat >main.go <<'END'
package main

import (
	"os"

	"k8s.io/component-base/cli"
	"k8s.io/kubernetes/cmd/kube-apiserver/app"
)

func main() {
	os.Exit(cli.Run(app.NewAPIServerCommand()))
}
END
    go mod tidy
    # Without them, the server calls itself v0.0.0, which no chart accepts.
    minor=${version#v1.}
    names="-X k8s.io/component-base/version.gitVersion=$version -X k8s.io/component-base/version.gitMajor=1"
    names="$names -X k8s.io/component-base/version.gitMinor=${minor%.*}"
    CGO_ENABLED=0 nice -n 19 go build -buildvcs=false -ldflags "-s -w $names" -o "$scratch/kube-apiserver" .
    mv "$scratch/kube-apiserver" "$directory/kube-apiserver"
  } >&2
fi
printf '%s\n' "$directory"
