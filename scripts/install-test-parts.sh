#!/bin/sh
# Installs what tests need beside npm packages, as far as it may, and names what it could not install; each part has a file in test-parts/.
# Tests that lack a part are skipped; in CI they fail. Exit status: 0 if every part is installed in the end.
set -u
cache=${XDG_CACHE_HOME:-$HOME/.cache}/edge-test-parts
mkdir -p "$cache" || exit 1
# Only one run works at a time: a second one waits and then finds what it needs. A scratch directory of yesterday was left by a killed run; a younger one
# may belong to a part that somebody installs alone.
if command -v flock >/dev/null; then
  exec 9>"$cache/lock"
  flock 9
  find "$cache" -mindepth 2 -maxdepth 2 \( -name 'build.??????' -o -name 'download.??????' \) -mmin +1440 -exec rm -rf {} +
fi
status=0
for part in "$(dirname "$0")"/test-parts/*.sh; do
  if ! sh "$part"; then
    printf 'Not complete: %s\n' "$(basename "$part" .sh)" >&2
    status=1
  fi
done
exit "$status"
