#!/bin/sh
# Makes all files of a release from the commit of a checkout, into one folder: the npm package, the image, the chart, the Debian packages, the list of what
# they contain, and checksums; with a key also a signature of the checksums. Two checkouts of a commit give the same bytes: docs/verify.md has the conditions.
# Needs git, npm, mmdebstrap and dpkg-deb, to sign also ssh-keygen, and npm's registry and Debian's mirror.
# Usage: release/make.sh DIRECTORY [KEY], where KEY is the file of an SSH private key. What is signed is a release: release/publishable.sh has to agree.
set -eu
case $# in 1 | 2) ;; *) sed -n 's/^# Usage: /Usage: /p' "$0" >&2; exit 1 ;; esac
out=$(realpath -m -- "$1")
key=
[ $# -lt 2 ] || key=$(realpath -m -- "$2")
cd "$(dirname "$0")/.."
if [ -e "$out" ] && ! { [ -d "$out" ] && [ -z "$(ls -A "$out")" ]; }; then
  echo "$out: expected an empty folder, or a path where nothing is yet" >&2
  exit 1
fi
[ -z "$key" ] || [ -r "$key" ] || { echo "$key: not readable" >&2; exit 1; }
# Whoever calls this would otherwise learn after minutes that something is missing.
missing=
for program in git node npm mmdebstrap dpkg dpkg-deb dpkg-query ${key:+ssh-keygen}; do
  command -v "$program" >/dev/null || missing="$missing $program"
done
[ -z "$missing" ] || { echo "Not installed:$missing; on Debian: apt-get install mmdebstrap openssh-client" >&2; exit 1; }
# Changes that are not committed would not be in the release. Whatever the settings of git are, they show here.
changed=$(git status --porcelain --untracked-files=normal)
[ -z "$changed" ] || { printf 'The checkout differs from its commit, so nobody could make the same release. Commit or remove:\n%s\n' "$changed" >&2; exit 1; }
[ -z "$key" ] || sh release/publishable.sh

version=$(node -p 'require("./package.json").version')
# The architectures of the image and of Debian packages.
architectures=${EDGE_RELEASE_ARCHITECTURES:-amd64 arm64}
SOURCE_DATE_EPOCH=$(git log -1 --format=%ct)
export SOURCE_DATE_EPOCH
umask 022
scratch=
partial=
trap 'rm -rf "$scratch" "$partial"' EXIT
trap 'exit 1' INT TERM
scratch=$(mktemp -d)
if [ -n "$key" ]; then
  # A wrong passphrase or key shows here, and not when all else is done.
  : >"$scratch/trial"
  ssh-keygen -q -Y sign -f "$key" -n file "$scratch/trial"
  ssh-keygen -q -Y verify -f release/allowed_signers -I edge-release -n file -s "$scratch/trial.sig" <"$scratch/trial" >/dev/null ||
    { echo "$key: not a key that release/allowed_signers names" >&2; exit 1; }
fi
# The folder is complete or not there, so it is written beside its place.
mkdir -p "$(dirname "$out")"
partial=$(mktemp -d "$out.XXXXXX")
files=$partial/files
mkdir "$files"

# Packs a folder as it would be packed anywhere else.
pack() { tar --sort=name --format=ustar --mtime="@$SOURCE_DATE_EPOCH" --owner=0 --group=0 --numeric-owner --mode=u=rwX,go=rX "$@"; }

# The same, compressed: FILE is written from what the other arguments name. In a pipe, nobody would notice that tar has failed.
compress() {
  file=$1
  shift
  pack -cf "$scratch/archive.tar" "$@"
  gzip -9n <"$scratch/archive.tar" >"$file"
}

echo "Building edge $version" >&2
# Only what is committed is built and packed: a checkout also has files that git ignores, such as logs and the program of an earlier build.
git -c core.autocrlf=false -c tar.umask=022 archive --format=tar --output "$scratch/source.tar" HEAD
mkdir "$scratch/source"
tar -xf "$scratch/source.tar" -C "$scratch/source"
cd "$scratch/source"
npm ci --loglevel=error --include=dev --ignore-scripts=false >&2
for file in program/edge.js dist/index.js; do
  [ -f "$file" ] || { echo "$file: missing, although npm ci should have built it" >&2; exit 1; }
done
# The code that V8 has compiled differs from build to build, and is of use to the same Node alone.
rm -rf program/cache

# npm takes over the permissions of the checkout, which depend on the umask of whoever made it.
package=$(npm pack --loglevel=error --ignore-scripts --pack-destination "$scratch")
tar -xzf "$scratch/$package" -C "$scratch"
compress "$files/$package" -C "$scratch" package

echo 'Making Debian packages' >&2
# Several words.
# shellcheck disable=SC2086
sh release/deb.sh "$files" $architectures

echo 'Making the chart' >&2
compress "$files/edge-chart-$version.tgz" -C deploy/helm edge

echo 'Making the image' >&2
# shellcheck disable=SC2086
sh release/image.sh "$scratch/image" $architectures >&2
pack -C "$scratch/image" -cf "$files/edge-image-$version.tar" .

sh release/node-binary.sh "$(dpkg --print-architecture)" "$scratch/node"
node release/sbom.mjs "$scratch/node/node" "$scratch/image" >"$files/edge-$version.cdx.json"

(cd "$files" && LC_ALL=C sha256sum -- * >"$scratch/SHA256SUMS")
mv "$scratch/SHA256SUMS" "$files/SHA256SUMS"
[ -z "$key" ] || ssh-keygen -q -Y sign -f "$key" -n file "$files/SHA256SUMS"
mv --no-target-directory "$files" "$out"
ls -l "$out"
