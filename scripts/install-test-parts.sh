#!/bin/sh
# What tests use beside npm packages; each part has a file in test-parts/. Installs what is missing where it may, and says what it
# could not install. Tests that lack a part are skipped; in CI they fail. Exit status: 0 if every part is there in the end.
set -u
status=0
for part in "$(dirname "$0")"/test-parts/*.sh; do
  if ! sh "$part"; then
    printf 'Not complete: %s\n' "$(basename "$part" .sh)" >&2
    status=1
  fi
done
exit "$status"
