#!/bin/sh
# Writes a Debian package for each architecture: program/ as `npm run build` wrote it, the Node that runs it, and the unit of deploy/systemd. From the same
# inputs it writes the same bytes. Needs dpkg-deb and npm; neither root nor debhelper.
# EDGE_DEB_COMPRESSION=none saves a minute, and makes it three times as large.
# Usage: release/deb.sh DIRECTORY [ARCHITECTURE...]
set -eu
[ $# -ge 1 ] || { sed -n 's/^# Usage: /Usage: /p' "$0" >&2; exit 1; }
mkdir -p "$1"
out=$(cd "$1" && pwd)
shift
cd "$(dirname "$0")/.."
[ $# -gt 0 ] || set -- amd64 arm64
[ -x program/edge.js ] || { echo 'program/edge.js: missing; npm ci builds it' >&2; exit 1; }

name=edge-decision-service
released=$(node -p 'require("./package.json").version')
# Debian sorts 1.0.0~rc.1 before 1.0.0, but 1.0.0-rc.1 after it. The file has no tilde in its name, because GitHub would replace it.
version=$(printf '%s' "$released" | sed 's/-/~/')
SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct 2>/dev/null || echo 0)}
export SOURCE_DATE_EPOCH

umask 022
scratch=
trap 'rm -rf "$scratch"' EXIT
trap 'exit 1' INT TERM
scratch=$(mktemp -d)

# Source maps are large, and the code that the build's own Node has compiled is of no use to the one in the package.
program() {
  mkdir -p "$1/usr/lib/edge" "$1/usr/bin"
  # Not through a pipe, in which nobody would notice that the first command has failed.
  tar -C program --exclude='*.js.map' --exclude=./cache --exclude=./LICENSE --exclude=./THIRD-PARTY-NOTICES -cf "$scratch/program.tar" .
  tar -C "$1/usr/lib/edge" --no-same-owner -xf "$scratch/program.tar"
  # These are no commands: the program names them to Node.
  sed -i '1{/^#!/d}' "$1"/usr/lib/edge/*.js
  chmod -R u=rwX,go=rX "$1/usr/lib/edge"
  chmod -x "$1"/usr/lib/edge/*.js
  install -m 755 release/debian/edge "$1/usr/bin/edge"
}

unit() {
  install -D -m 644 deploy/systemd/edge.service "$1/usr/lib/systemd/system/edge.service"
  install -D -m 644 deploy/systemd/edge.sysusers "$1/usr/lib/sysusers.d/edge.conf"
  install -D -m 600 deploy/systemd/edge.env "$1/etc/edge/edge.env"
  install -D -m 644 deploy/systemd/bundle.yaml "$1/etc/edge/bundle.yaml"
  mkdir -p "$1/DEBIAN"
  printf '/etc/edge/edge.env\n/etc/edge/bundle.yaml\n' >"$1/DEBIAN/conffiles"
}

texts() {
  doc=$1/usr/share/doc/$name
  mkdir -p "$doc" "$1/usr/share/man/man1"
  install -m 644 release/debian/copyright "$doc/copyright"
  install -m 644 release/debian/README.Debian "$doc/README.Debian"
  gzip -9n <program/THIRD-PARTY-NOTICES >"$doc/THIRD-PARTY-NOTICES.gz"
  gzip -9n <"$2/LICENSE" >"$doc/node-licences.gz"
  printf '%s (%s) stable; urgency=medium\n\n  * CHANGELOG.md of the source says what is new.\n\n -- The edge authors <no-address@edge.invalid>  %s\n' \
    $name "$version" "$(LC_ALL=C date -u -R -d "@$SOURCE_DATE_EPOCH")" | gzip -9n >"$doc/changelog.gz"
  node program/edge.js --help >"$scratch/help"
  manual <"$scratch/help" | gzip -9n >"$1/usr/share/man/man1/edge.1.gz"
  install -D -m 644 release/debian/lintian-overrides "$1/usr/share/lintian/overrides/$name"
}

# The manual page is what `edge --help` prints, which comes from stdin.
manual() {
  printf '.TH EDGE 1 "" "edge %s"\n.SH NAME\nedge \\- rate limits and LLM token budgets\n.SH SYNOPSIS\n.B edge\n.I command\n.SH DESCRIPTION\n.nf\n' "$version"
  sed 's/\\/\\e/g; s/-/\\-/g; s/^[.'"'"']/\\\&&/'
  printf '.fi\n.SH FILES\n.I /etc/edge/edge.env\n.RS\nSettings of edge.service.\n.RE\n.I /etc/edge/bundle.yaml\n.RS\nThe policy bundle.\n.RE\n'
}

for architecture in "$@"; do
  root=$scratch/$architecture
  sh release/node-binary.sh "$architecture" "$scratch/node-$architecture"
  program "$root"
  install -m 755 "$scratch/node-$architecture/node" "$root/usr/lib/edge/node"
  unit "$root"
  texts "$root" "$scratch/node-$architecture"
  (cd "$root" && find . -path ./DEBIAN -prune -o -type f -print | LC_ALL=C sort | sed 's|^\./||' | grep -v '^etc/' | tr '\n' '\0' | xargs -0 md5sum) >"$root/DEBIAN/md5sums"
  size=$(find "$root" -path "$root/DEBIAN" -prune -o -type f -printf '%s\n' | awk '{ kib += int(($1 + 1023) / 1024) } END { print kib }')
  sed "s/@VERSION@/$version/; s/@ARCHITECTURE@/$architecture/; s/@SIZE@/$size/" release/debian/control >"$root/DEBIAN/control"
  for script in preinst postinst prerm postrm; do install -m 755 "release/debian/$script" "$root/DEBIAN/$script"; done
  find "$root" -type d -exec chmod 755 {} +
  find "$root" -exec touch --no-dereference --date="@$SOURCE_DATE_EPOCH" {} +
  # How many threads compress would show in the result.
  dpkg-deb --root-owner-group --threads-max=1 "-Z${EDGE_DEB_COMPRESSION:-xz}" -z3 --build "$root" "$out/${name}_${released}_$architecture.deb" >/dev/null
done
