#!/bin/sh
# Writes the container image, for amd64 and arm64, as an OCI layout. It pulls no base image: the root file system consists of a few packages of
# Debian, the Node binary is a pinned npm package, and the program is program/ as `npm run build` wrote it. From the same inputs it writes the same
# bytes. Needs mmdebstrap, npm and Node; no container engine, no root.
# Usage: release/image.sh DIRECTORY [ARCHITECTURE...]
set -eu
[ $# -ge 1 ] || { sed -n 's/^# Usage: /Usage: /p' "$0" >&2; exit 1; }
out=$(realpath -m -- "$1")
shift
cd "$(dirname "$0")/.."
[ $# -gt 0 ] || set -- amd64 arm64
for architecture in "$@"; do
  case $architecture in amd64 | arm64) ;; *) echo "$architecture: expected amd64 or arm64" >&2; exit 1 ;; esac
done
[ ! -e "$out" ] || { echo "$out: expected a path where nothing is yet" >&2; exit 1; }
[ -x program/edge.js ] || { echo 'program/edge.js: missing; npm ci builds it' >&2; exit 1; }
command -v mmdebstrap >/dev/null || { echo 'mmdebstrap: not installed; on Debian: apt-get install mmdebstrap' >&2; exit 1; }

suite=bookworm
# What Node is linked against, and what tells scanners which system this is. There is no shell and no package manager.
packages='base-files gcc-12-base libc6 libgcc-s1 libstdc++6'
user=65532
SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct 2>/dev/null || echo 0)}
export SOURCE_DATE_EPOCH

umask 022
scratch=
partial=
trap 'rm -rf "$scratch" "$partial"' EXIT
trap 'exit 1' INT TERM
scratch=$(mktemp -d)
# The layout is complete or not there, so it is written beside its place.
mkdir -p "$(dirname "$out")"
partial=$(mktemp -d "$out.XXXXXX")

# Verified by apt, extracted without maintainer scripts, so that what those would have written is written here.
base_layer() {
  architecture=$1 root=$2
  mkdir -p "$root.apt" "$root/var/lib/dpkg/status.d"
  # Nothing is installed, so no root is needed: the hook takes the packages that apt has downloaded.
  (cd "$root.apt" && mmdebstrap --quiet --mode=chrootless --variant=extract --architectures="$architecture" --include="$packages" \
    --skip=cleanup/apt --extract-hook='copy-out /var/cache/apt/archives .' --format=null "$suite" -) >&2
  for package in $packages; do
    deb=$(echo "$root.apt/archives/$package"_*.deb)
    dpkg-deb -x "$deb" "$root"
    # This is where scanners look for packages of an image that has no package manager.
    dpkg-deb -f "$deb" >"$root/var/lib/dpkg/status.d/$package"
  done
  # Licences stay; manuals, translations and other texts that only people read in a shell go.
  find "$root/usr/share/doc" ! -type d ! -name copyright ! -type l -delete
  find "$root/usr/share/doc" -type d -empty -delete
  rm -rf "$root/usr/share/man" "$root/usr/share/lintian" "$root/usr/share/info" "$root/usr/share/base-files" "$root/usr/lib/"*-linux-gnu/gconv \
    "$root/usr/lib/"*-linux-gnu/audit "$root/usr/share/gdb" "$root/usr/share/gcc" "$root/usr/share/bug" "$root/usr/share/dpkg"
  printf 'root:x:0:0:root:/root:/sbin/nologin\nedge:x:%s:%s:edge:/var/lib/edge:/sbin/nologin\n' $user $user >"$root/etc/passwd"
  printf 'root:x:0:\nedge:x:%s:\n' $user >"$root/etc/group"
  # Without this, glibc asks DNS before it looks into /etc/hosts.
  printf 'passwd: files\ngroup: files\nhosts: files dns\n' >"$root/etc/nsswitch.conf"
  mkdir -p "$root/etc/edge" "$root/var/lib/edge" "$root/tmp"
  chmod 1777 "$root/tmp"
}

node_layer() {
  architecture=$1 root=$2
  sh release/node-binary.sh "$architecture" "$root.package"
  install -D -m 755 "$root.package/node" "$root/usr/local/bin/node"
  install -D -m 644 "$root.package/LICENSE" "$root/usr/share/doc/nodejs/copyright"
}

# Source maps and the code that another Node has compiled are left out: the first are large, and the second is different in each build.
program_layer() {
  root=$1
  mkdir -p "$root/usr/lib/edge" "$root/usr/local/bin"
  # Not through a pipe, in which nobody would notice that the first command has failed.
  tar -C program --exclude='*.js.map' --exclude=./cache -cf "$root.copy" .
  tar -C "$root/usr/lib/edge" --no-same-owner -xf "$root.copy"
  # There is no env in the image.
  sed -i '1s|.*|#!/usr/local/bin/node|' "$root/usr/lib/edge/edge.js"
  ln -s ../../lib/edge/edge.js "$root/usr/local/bin/edge"
  chmod -R u=rwX,go=rX "$root"
}

# Everything but the folder for state belongs to root, so that the program cannot change its own files even where the root is writable.
pack() {
  root=$1 tar=$2
  set -- --sort=name --format=gnu --mtime="@$SOURCE_DATE_EPOCH" --numeric-owner --directory "$root" --file "$tar"
  tar --create "$@" --owner=0 --group=0 --exclude=./var/lib/edge .
  [ ! -d "$root/var/lib/edge" ] || tar --append "$@" --owner=$user --group=$user ./var/lib/edge
}

program_layer "$scratch/program"
pack "$scratch/program" "$scratch/program.tar"
images=
for architecture in "$@"; do
  node_layer "$architecture" "$scratch/node-$architecture"
  base_layer "$architecture" "$scratch/base-$architecture"
  for layer in base node; do pack "$scratch/$layer-$architecture" "$scratch/$layer-$architecture.tar"; done
  images="$images $architecture=base-$architecture.tar,node-$architecture.tar,program.tar"
done
writer=$PWD/release/oci-layout.mjs
# The names of layers have no spaces, whatever the path of the scratch folder has.
# shellcheck disable=SC2086
digest=$(cd "$scratch" && node "$writer" "$partial/layout" $user $images)
# Fails if something is there by now.
mv --no-target-directory "$partial/layout" "$out"
echo "$digest"
