#!/bin/sh
# Installs what tests need beside npm packages, as far as it may, and names what it could not install; each part has a file in test-parts/.
# Tests that lack a part are skipped; in CI they fail. Exit status: 0 if every part is installed in the end.
set -u
cache=${XDG_CACHE_HOME:-$HOME/.cache}/edge-test-parts
mkdir -p "$cache" || exit 1
# Only one run works at a time: a second one waits and then finds what it needs. Any scratch directory that exists now was left by a killed run.
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
