#!/bin/sh
# Makes a root file system of Debian with systemd, in which tests install the Debian package and run its unit, and with lintian, which checks the package.
# Takes minutes, once. Exit status: 0 if it is there in the end.
set -eu
version=bookworm-1
directory=${XDG_CACHE_HOME:-$HOME/.cache}/edge-test-parts/systemd-root-$version
[ ! -e "$directory/systemd-root" ] || exit 0

if [ "$(id -u)" != 0 ] || ! command -v mmdebstrap >/dev/null; then
  printf '\nNot made: a root file system of Debian. To run all tests, run this script as root, after installing mmdebstrap.\n\n' >&2
  exit 1
fi

mkdir -p "$directory"
scratch=$(mktemp -d "$directory/build.XXXXXX")
trap 'rm -rf "$scratch"' EXIT
trap 'exit 1' INT TERM
printf 'Making a root file system of Debian. This takes some minutes.\n' >&2
# A mirror may refuse a file once. What mmdebstrap says is kept, because its last lines name what failed.
if ! nice mmdebstrap --variant=minbase --aptopt='Acquire::Retries "5"' --include=systemd,systemd-sysv,dbus,lintian \
  "${version%-*}" "$scratch/systemd-root.tar" >"$scratch/said" 2>&1; then
  tail -n 40 "$scratch/said" >&2
  printf '\nNot made: a root file system of Debian. The lines above are what mmdebstrap said last.\n\n' >&2
  exit 1
fi
mv "$scratch/systemd-root.tar" "$directory/systemd-root"
