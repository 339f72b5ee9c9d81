#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
#
# with_accel_node.sh COMMAND...: runs COMMAND with a /dev/accel/accel0, which makes UCX's ib module believe that it can
# register Gaudi memory without a dma-buf. The node exists in a mount namespace of its own, so the machine is unchanged.
set -eu
if [ "${1-}" != --inside ]; then
    # Root needs no user namespace, and would lose CAP_IPC_LOCK in one: the limit of locked memory would count.
    [ "$(id -u)" -eq 0 ] && exec unshare --mount "$0" --inside "$@"
    exec unshare --user --map-root-user --mount "$0" --inside "$@"
fi
shift
dev=$(mktemp -d)
trap 'rmdir "$dev"' EXIT # unless it gets as far as exec
mount -t tmpfs dev "$dev"
for node in null zero full random urandom tty shm fd stdin stdout stderr; do
    if [ -L "/dev/$node" ]; then
        cp -P "/dev/$node" "$dev/$node"
    elif [ -d "/dev/$node" ]; then
        mkdir "$dev/$node"
        mount --bind "/dev/$node" "$dev/$node"
    else
        : >"$dev/$node"
        mount --bind "/dev/$node" "$dev/$node"
    fi
done
mkdir "$dev/accel"
: >"$dev/accel/accel0"
mount --rbind "$dev" /dev
umount -l "$dev"
rmdir "$dev"
trap - EXIT
exec "$@"
