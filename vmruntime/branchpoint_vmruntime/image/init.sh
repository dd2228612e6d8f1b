#!/bin/busybox sh
# First program of a guest: puts the writable disk over the read-only root and hands over to guestd.
box=/bin/busybox

fail() {
    echo "branchpoint: $1" >/dev/console
    $box poweroff -f
    exec $box sleep 1000
}

$box mount -t proc proc /proc
$box mount -t sysfs sysfs /sys
$box mount -t devtmpfs -o mode=0755 dev /dev
while read -r module; do
    $box insmod "/modules/$module.ko" || fail "cannot load $module"
done </modules/order

# Devices appear a moment after their drivers.
tries=0
while [ ! -b /dev/vda ] || [ ! -b /dev/vdb ]; do
    tries=$((tries + 1))
    [ $tries -lt 500 ] || fail "the disks did not appear"
    $box usleep 10000
done
$box mount -t ext4 -o ro,noatime /dev/vda /ro || fail "cannot mount the root"
$box mount -t ext4 -o rw,noatime,nodiscard /dev/vdb /rw || fail "cannot mount the disk"
$box mkdir -p /rw/upper /rw/work
$box mount -t overlay -o lowerdir=/ro,upperdir=/rw/upper,workdir=/rw/work,noatime overlay /new ||
    fail "cannot mount the overlay"

for name in proc sys dev; do
    $box mount --move /$name /new/$name
done
$box mkdir -p /new/dev/pts /new/dev/shm
$box mount -t devpts -o gid=5,mode=620,ptmxmode=666 devpts /new/dev/pts
$box mount -t tmpfs -o mode=1777,nosuid,nodev tmpfs /new/dev/shm
$box mount -t tmpfs -o mode=755,nosuid,nodev tmpfs /new/run
$box mount -t cgroup2 -o nsdelegate cgroup2 /new/sys/fs/cgroup
$box mkdir -p -m 1777 /new/run/lock
$box ln -sf /proc/self/fd /new/dev/fd
$box ln -sf /proc/self/fd/0 /new/dev/stdin
$box ln -sf /proc/self/fd/1 /new/dev/stdout
$box ln -sf /proc/self/fd/2 /new/dev/stderr
$box hostname branchpoint
$box ifconfig lo 127.0.0.1 up

$box rm -rf /new/opt/branchpoint
$box cp -R /branchpoint /new/opt/branchpoint
export HOME=/root LANG=C.UTF-8 TERM=linux
export PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
cd /
exec $box switch_root /new /usr/bin/python3 -I -S /opt/branchpoint/lib/branchpoint_guest/__main__.py \
    </dev/console >/dev/console 2>&1
