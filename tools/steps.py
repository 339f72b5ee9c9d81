# SPDX-License-Identifier: BSD-3-Clause
"""Paths of the project, and long commands: one line on the screen for each, its output in a log."""

import contextlib
import os
import re
import shlex
import signal
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
BUILD = ROOT / "build"
LOGS = BUILD / "logs"


class Stop(Exception):
    """Ends the script with a message for the user."""

    def __init__(self, message, code=1):
        super().__init__(message)
        self.code = code


def shown(path):
    """The path as the user would type it from the project's directory."""
    return os.path.relpath(path, ROOT)


def seconds(count):
    return f"{count:.1f} s" if count < 100 else f"{count:.0f} s"


def tail(log, lines):
    return "\n".join(log.read_text(errors="replace").splitlines()[-lines:])


def progress(log):
    """How far a command is: '12/340' when the newest part of its log counts like ninja ('[12/340] ...') or ctest
    ('12/340 Test ...'), or what follows 'progress: ' in it."""
    with log.open("rb") as file:
        file.seek(max(0, file.seek(0, os.SEEK_END) - 4096))
        counts = re.findall(rb"^(?:\[? *(?=\d+/\d+[\] ])|progress: )(\d+/\d+|.*)", file.read(), re.MULTILINE)
    return counts[-1].decode() if counts else ""


ENDING = {signal.SIGINT, signal.SIGTERM}


def start_group(command, **options):
    """Starts a command in a process group of its own, which can be ended as a whole. A signal that comes meanwhile waits:
    whoever it makes stop must know the child."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, ENDING)

    def prepare():
        os.setpgrp()
        signal.pthread_sigmask(signal.SIG_SETMASK, before)

    return subprocess.Popen(command, preexec_fn=prepare, **options)


@contextlib.contextmanager
def running(command, log_name, env=None):
    """A command that runs while the context lasts, with its output in a log: (child, log). Whatever makes the context end
    early ends the command."""
    LOGS.mkdir(parents=True, exist_ok=True)
    log = LOGS / f"{log_name}.log"
    with log.open("w") as output:
        output.write(f"$ {shlex.join(command)}\n")
        output.flush()
        try:
            child = start_group(command, cwd=ROOT, stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT,
                                env={**os.environ, **(env or {})})
        except FileNotFoundError:
            signal.pthread_sigmask(signal.SIG_UNBLOCK, ENDING)
            raise Stop(f"{command[0]} is not installed.") from None
    try:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, ENDING)
        yield child, log
    except BaseException:
        if child.poll() is None:
            os.killpg(child.pid, signal.SIGTERM)
            child.wait()
        raise


def wait(title, child, log, may_fail=False):
    """Waits for a command of running(), showing on one line how far it is. Returns the exit code."""
    live = sys.stdout.isatty()
    start = time.monotonic()
    beat = 60  # seconds between progress reports where a line cannot be redrawn
    print(f"  {title:<34}", end="", flush=True)
    while True:
        try:
            code = child.wait(timeout=1)
            break
        except subprocess.TimeoutExpired:
            elapsed = time.monotonic() - start
            if live:
                print(f"\r  {title:<34}{elapsed:.0f} s  {progress(log)}\033[K", end="", flush=True)
            elif elapsed > beat:
                print(f"{progress(log) or '...'} ", end="", flush=True)
                beat += 60
    if live:
        print(f"\r  {title:<34}", end="")
    clear = "\033[K" if live else ""
    failed = "" if code == 0 else "   failed"
    print(f"{seconds(time.monotonic() - start)}{failed}{clear}", flush=True)
    if code != 0 and not may_fail:
        raise Stop(f"{tail(log, 40)}\n\n'{title}' failed; all of its output: {shown(log)}")
    return code


def step(title, command, log_name, env=None, may_fail=False):
    """Runs a command whose output goes to a log, showing the time it takes. Returns (exit code, log)."""
    with running(command, log_name, env) as (child, log):
        return wait(title, child, log, may_fail), log


def counted(title, total):
    """Counts from 0 to total, showing on one line how far that is."""
    live = sys.stdout.isatty()
    start = time.monotonic()
    print(f"  {title:<34}", end="", flush=True)
    for i in range(total):
        if live:
            print(f"\r  {title:<34}{time.monotonic() - start:.0f} s  {i}/{total}\033[K", end="", flush=True)
        yield i
    if live:
        print(f"\r  {title:<34}\033[K", end="")
    print(seconds(time.monotonic() - start), flush=True)
