# SPDX-License-Identifier: BSD-3-Clause
"""Debian packages: which are missing, and getting them installed."""

import os
import shlex
import shutil
import subprocess
import sys

from steps import Stop, step, tail


def missing_packages(names):
    query = subprocess.run(["dpkg-query", "-W", "-f", "${Package} ${db:Status-Status}\n", *names],
                           stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, check=False)
    installed = {line.split()[0] for line in query.stdout.splitlines() if line.endswith(" installed")}
    return [name for name in names if name not in installed]


def sudo_works():
    if not shutil.which("sudo"):
        return False
    if subprocess.run(["sudo", "-n", "true"], stderr=subprocess.DEVNULL, check=False).returncode == 0:
        return True
    # sudo asks for a password only where a user can type it.
    return sys.stdin.isatty() and subprocess.run(["sudo", "-v"], check=False).returncode == 0


def need_packages(names):
    if not shutil.which("dpkg-query"):
        print("  note: this is not Debian, so install these packages, or what they are called here: " + " ".join(names))
        return
    missing = missing_packages(names)
    if not missing:
        return
    install = ["apt-get", "install", "-y", "--no-install-recommends", *missing]
    by_hand = f"apt-get update && {shlex.join(install)}"
    if os.geteuid() == 0:
        prefix = []
    elif sudo_works():
        prefix = ["sudo"]
        by_hand = "sudo " + by_hand.replace("&& ", "&& sudo ")
    else:
        raise Stop("Debian packages are missing and this user may not install them. Run this as root, then come back:"
                   f"\n\n    {by_hand}\n")
    prefix += ["env", "DEBIAN_FRONTEND=noninteractive"]
    patience = ["-o", "DPkg::Lock::Timeout=300"]  # another apt may be running
    # A new machine has an old or empty package list. If the update fails, the install reports it.
    step("update the package list", prefix + ["apt-get", "update"], "apt-update", may_fail=True)
    code, log = step(f"install {len(missing)} Debian packages", prefix + install[:1] + patience + install[1:],
                     "apt-install", may_fail=True)
    if code != 0:
        raise Stop(f"{tail(log, 15)}\n\nThe packages could not be installed (no network?). To do it by hand:\n\n"
                   f"    {by_hand}\n")
