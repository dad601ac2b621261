#!/bin/sh
# Lets containers be started in a container of version 2 of control groups, as on GitHub: there, limits can be set in a group only after all processes
# have left it for one below. What runs next has to be in the same step, because each step begins in the group that is left here. With version 1 it does nothing.
# Usage: delegate-cgroup.sh [DIRECTORY]
set -eu
root=${1:-/sys/fs/cgroup}
[ -f "$root/cgroup.controllers" ] || exit 0
mkdir -p "$root/init"
# All of them are read before the first one moves.
# shellcheck disable=SC2013 # Numbers are words.
for pid in $(cat "$root/cgroup.procs"); do
  # A process that has ended meanwhile cannot be moved, and need not be.
  echo "$pid" 2>/dev/null >>"$root/init/cgroup.procs" || true
done
sed 's/[^ ][^ ]*/+&/g' "$root/cgroup.controllers" >"$root/cgroup.subtree_control"
