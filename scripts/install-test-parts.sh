#!/bin/sh
# What tests use beside npm packages; each part has a file in test-parts/. Installs what is missing where it may, and says what it
# could not install. Tests that lack a part are skipped; in CI they fail. Exit status: 0 if every part is there in the end.
set -u
cache=${XDG_CACHE_HOME:-$HOME/.cache}/edge-test-parts
mkdir -p "$cache" || exit 1
# One run at a time: a second one waits, and finds what it needs. Scratch directories that are there now were left by one that was killed.
if command -v flock >/dev/null; then
  exec 9>"$cache/lock"
  flock 9
  rm -rf "$cache"/*/build.?????? "$cache"/*/download.??????
fi
status=0
for part in "$(dirname "$0")"/test-parts/*.sh; do
  if ! sh "$part"; then
    printf 'Not complete: %s\n' "$(basename "$part" .sh)" >&2
    status=1
  fi
done
exit "$status"
