# SPDX-License-Identifier: BSD-3-Clause
"""This machine with all its files, in which a script may install and write what it likes: nothing of that stays."""

from test_installed import run

# The changes are kept in memory, because they may not be inside of what they change.
IN_COPY = """set -e
mount -t tmpfs tmpfs "$1"
mkdir "$1/changes" "$1/work" "$1/root"
mount -t overlay overlay -o "lowerdir=/,upperdir=$1/changes,workdir=$1/work" "$1/root"
mount --rbind /dev "$1/root/dev"
mount --rbind /sys "$1/root/sys"
mount -t proc proc "$1/root/proc"
mount --rbind "$2" "$1/root$2"
exec chroot "$1/root" bash -c "$3"
"""


def run_in_copy(script, sources, mount_point):
    """What a script for bash prints. Of the directories that are mounts of their own it sees only `sources`. Needs root."""
    return run("unshare", "--mount", "sh", "-c", IN_COPY, "sh", mount_point, sources, script)
