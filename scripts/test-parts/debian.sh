#!/bin/sh
# Installs programs from Debian: redis-server, libfaketime, which steps its clock, openssl, the gateways nginx, HAProxy and Caddy,
# chromium-headless-shell for the operators' page, prometheus, which includes promtool, shellcheck, a JDK, whose HttpClient asks over TLS, PostgreSQL,
# which usage logs are loaded into, and for the container image mmdebstrap, which makes its root file system, runc, which runs it, buildah, which builds the Dockerfile, and qemu for the other architecture.
# Exit status: 0 if all of them are installed in the end.
set -eu
PATH=$PATH:/usr/sbin:/usr/local/sbin

missing=
for program in redis-server openssl shellcheck nginx haproxy caddy chromium-headless-shell prometheus mmdebstrap runc buildah; do
  command -v "$program" >/dev/null || missing="$missing $program"
done
command -v java >/dev/null || missing="$missing default-jdk-headless"
command -v qemu-aarch64-static >/dev/null || missing="$missing qemu-user-static"
ls /usr/lib/postgresql/*/bin/initdb >/dev/null 2>&1 || missing="$missing postgresql"
ls /usr/lib/*/faketime/libfaketime.so.1 >/dev/null 2>&1 || missing="$missing libfaketime"
[ -n "$missing" ] || exit 0

install="apt-get install -y --no-install-recommends$missing"
as_root=
[ "$(id -u)" = 0 ] || as_root='sudo -n'
if ! command -v apt-get >/dev/null || ! $as_root true 2>/dev/null; then
  printf '\nNot installed:%s. To run all tests, as root on Debian:\n  %s\n\n' "$missing" "$install" >&2
  exit 1
fi

# Only the programs are needed, so no service may start by itself.
policy=/usr/sbin/policy-rc.d
if [ ! -e "$policy" ]; then
  trap '$as_root rm -f "$policy"' EXIT
  trap 'exit 1' INT TERM
  printf '#!/bin/sh\nexit 101\n' | $as_root tee "$policy" >/dev/null
  $as_root chmod +x "$policy"
fi
# The command is several words.
# shellcheck disable=SC2086
{ $as_root apt-get update -q && $as_root env DEBIAN_FRONTEND=noninteractive $install; } >&2
