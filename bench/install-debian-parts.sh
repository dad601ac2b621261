#!/bin/sh
# Debian's programs that benchmarks use, named as arguments: nginx and haproxy to compare with, redis-server for shared
# counters, wrk for the load. Installs what is missing where it may; where it may not, it says so and the benchmark goes
# on without.
set -eu
PATH=$PATH:/usr/sbin:/usr/local/sbin

missing=
for program in "$@"; do
  command -v "$program" >/dev/null || missing="$missing $program"
done
[ -n "$missing" ] || exit 0

install="apt-get install -y --no-install-recommends$missing"
if ! command -v apt-get >/dev/null || [ "$(id -u)" != 0 ]; then
  printf '\nNot installed:%s. For all of the figures run, as root on Debian:\n  %s\n\n' "$missing" "$install" >&2
  exit 0
fi

# Only the programs are wanted: no service may start by itself.
policy=/usr/sbin/policy-rc.d
if [ ! -e "$policy" ]; then
  trap 'rm -f "$policy"' EXIT
  trap 'exit 1' INT TERM
  printf '#!/bin/sh\nexit 101\n' >"$policy"
  chmod +x "$policy"
fi
export DEBIAN_FRONTEND=noninteractive
{ apt-get update -q && $install; } >&2 || printf '\nCould not install:%s\n\n' "$missing" >&2
