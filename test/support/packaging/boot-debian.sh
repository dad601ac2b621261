#!/bin/sh
# Boots the systemd of a root file system as the first process of namespaces of its own, also of the network, in which only loopback exists.
# Usage: boot-debian.sh ROOT CGROUP, where CGROUP is an empty folder in a hierarchy of version 2
set -eu
root=$1
echo $$ >"$2/cgroup.procs"
export root
# shellcheck disable=SC2016 # The second shell expands them.
exec unshare --mount --pid --uts --ipc --net --cgroup --fork --kill-child sh -euc '
  mount --make-rprivate /
  mount --bind "$root" "$root"
  cd "$root"
  mount -t proc proc proc
  mount -t sysfs -o ro sysfs sys
  mount -t cgroup2 cgroup2 sys/fs/cgroup
  for folder in dev run tmp; do mount -t tmpfs tmpfs $folder; done
  for device in null zero full random urandom tty; do
    touch dev/$device
    mount --bind /dev/$device dev/$device
  done
  mkdir dev/pts dev/shm
  mount -t devpts -o newinstance,ptmxmode=0666 devpts dev/pts
  ln -s pts/ptmx dev/ptmx
  ln -s /proc/self/fd dev/fd
  pivot_root . mnt
  cd /
  umount -l /mnt
  # As a machine has it. Without it, systemd cannot hand out credentials.
  mount --make-rshared /
  exec env -i container=edge-test PATH=/usr/sbin:/usr/bin:/sbin:/bin /lib/systemd/systemd
'
