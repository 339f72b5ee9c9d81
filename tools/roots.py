# SPDX-License-Identifier: BSD-3-Clause
"""Root directories of Debian releases, in build/roots: packages are tested in them, and compilers tried, without a change to
this machine."""

import contextlib
import os
import shutil

from packages import need_packages
from steps import BUILD, Stop, running, wait

ROOTS = BUILD / "roots"
RELEASES = {"bullseye": "Debian 11", "bookworm": "Debian 12", "trixie": "Debian 13"}

# The directory, the release, then the packages to add. Mounts of debootstrap end with the script.
MAKE = """set -e
directory=$1 release=$2
shift 2
debootstrap --variant=minbase "$release" "$directory"
mount -t proc proc "$directory/proc"
chroot "$directory" apt-get install -y --no-install-recommends "$@"
chroot "$directory" apt-get clean
"""


def need_root():
    if os.geteuid() != 0:
        raise Stop("root directories of Debian can be made and entered only by root: use sudo.")


@contextlib.contextmanager
def making(name, release, packages):
    """Makes the root build/roots/<name> while the context lasts, unless it is there; yields a function that waits for it."""
    root, stamp = ROOTS / name, ROOTS / f"{name}.packages"
    wanted = " ".join([release, *packages])
    if root.exists() and stamp.exists() and stamp.read_text() == wanted:
        yield lambda: root
        return
    need_root()
    need_packages(["debootstrap"])
    stamp.unlink(missing_ok=True)  # an interrupted run leaves nothing that looks complete
    shutil.rmtree(root, ignore_errors=True)
    ROOTS.mkdir(parents=True, exist_ok=True)
    command = ["unshare", "--mount", "sh", "-c", MAKE, "sh", str(root), release, *packages]
    with running(command, f"root-{name}", env={"DEBIAN_FRONTEND": "noninteractive", "LC_ALL": "C"}) as (child, log):
        def finish():
            if not stamp.exists():
                wait(f"make a root of {RELEASES[release]}", child, log)
                stamp.write_text(wanted)
            return root
        yield finish


def make(name, release, packages):
    with making(name, release, packages) as finish:
        return finish()
