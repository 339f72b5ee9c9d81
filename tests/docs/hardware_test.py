#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Runs the lines of docs/hardware.md in software, as printed, and looks for the output that the page shows.

usage: hardware_test.py BUILD-DIRECTORY

Indented lines are run. Lines with $ between fences need a card, or something that a test must not do: they are parsed.
Other lines between fences are output.
"""

import json
import os
import re
import shlex
import signal
import socket
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "packaging"))
sys.dont_write_bytecode = True

import doc_lines

PAGE = ROOT / "docs" / "hardware.md"
README = ROOT / "README.md"
OF_THE_VENDOR = ("hl-smi", "lsmod", "lspci")  # programs that a machine of developers may lack
NOT_RUN = ("1. Install", "8. NIXL", "9. vLLM")  # by this test: packaging/test_readme.py and test_lines.py have their lines
TIME_LIMIT_S = 300

# Runs a line in the background, and goes on when its port is open.
SERVER = """{ %s ; } > server.out 2>&1 &
server=$!
until cat /proc/net/tcp /proc/net/tcp6 2> /dev/null | grep -q "$(printf ':%%04X 0*:0000 0A' $PORT)"; do
    kill -0 $server || { cat server.out; exit 1; }
    sleep 0.05
done
"""
# The client has ended, so the server does.
CLIENT = "%s || { kill $server; exit 1; }\nwait $server || exit 1\ncat server.out\nsoftgaudi_stat --json > moved.json\n"


def sections(page):
    return [heading[2] for heading in map(doc_lines.HEADING.fullmatch, page.splitlines()) if heading and heading[1] == "##"]


def fenced(section):
    """Lines between fences: (those with $, without it; the others)."""
    commands, outputs, inside = [], [], False
    for line in doc_lines.read_section(PAGE, section):
        if line.startswith("```"):
            inside = not inside
        elif inside:
            (commands if line.startswith("$ ") else outputs).append(line.removeprefix("$ "))
    return commands, outputs


def host_checks():
    """The lines of the table."""
    lines = doc_lines.read_section(PAGE, "2. Look at the server")
    found = [re.match(r"\| [^|]+ \| `((?:[^`\\]|\\.)+)` \|", line) for line in lines]
    return [match[1].replace("\\|", "|") for match in found if match]


def commands(section):
    """The indented lines; a section may have none."""
    try:
        return doc_lines.read_commands(PAGE, section)
    except ValueError:
        return []


def blanks(text):
    return " ".join(text.split())


def is_server(command):
    return command.startswith("ucx_perftest ") and "-l" not in command.split() and "$SERVER" not in command


def as_script(section):
    """What a shell runs for a section."""
    script = "".join(SERVER % line if is_server(line) else CLIENT % line if "$SERVER" in line
                     else f"{line}\n[ $? = 0 ] || exit 1\n" for line in commands(section))
    return f"echo ==== {shlex.quote(section)}\n{script}"


def run(command, **options):
    """The command in a session of its own, which ends as a whole if it takes too long."""
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace",
                          start_new_session=True, **options) as child:
        try:
            output = child.communicate(timeout=TIME_LIMIT_S)[0]
        except subprocess.TimeoutExpired:
            os.killpg(child.pid, signal.SIGKILL)
            output = child.communicate()[0] + f"\nended after {TIME_LIMIT_S} s"
    return subprocess.CompletedProcess(command, child.returncode, output)


def check_known_lines():
    """Lines that other tests run are the same there."""
    readme = {line for heading in ("Install", "The demo", "30 seconds with NIXL")
              for line in doc_lines.read_commands(README, heading)}
    vllm = (ROOT / "docs" / "vllm-gaudi.md").read_text(encoding="utf-8")
    wrong = [f"'{line}' is no line of the README" for line in commands("1. Install") if line not in readme]
    wrong += [f"'{line}' is no line of the README" for line in fenced("8. NIXL")[0]
              if line not in readme and f"ucx_gaudi run --cards 2 --hca -- {line}" not in readme]
    wrong += [f"docs/vllm-gaudi.md does not have '{word}'" for line in fenced("9. vLLM")[0] for word in line.split()
              if word.startswith(("UCX_TLS=", "UCX_MEMTYPE_CACHE=")) and word not in vllm]
    return wrong


def check_host_lines():
    """Their results are the machine's; a line that bash or a program does not understand is wrong everywhere."""
    wrong = []
    for line in host_checks():
        done = run(["bash", "-o", "pipefail", "-c", line])
        missing = re.search(r"(\S+): command not found", done.stdout)
        if missing and missing[1] not in OF_THE_VENDOR or re.search("syntax error|invalid option|unrecognized", done.stdout):
            wrong.append(f"$ {line}\n{done.stdout}")
    return wrong if len(host_checks()) >= 8 else ["the table of checks was not found"]


def check_fenced_lines(every):
    return [f"bash does not understand '{line}'" for section in every for line in fenced(section)[0]
            if run(["bash", "-n", "-c", line]).returncode != 0]


def run_page(build, every, directory):
    """What all other sections print, in one shell, and what is wrong."""
    binaries = Path(build) / "bin"
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    environment = {**os.environ, "HOME": directory, "XDG_CACHE_HOME": f"{directory}/cache", "PORT": str(port), "SOAK": "1",
                   "PATH": f"{binaries}:{os.environ['PATH']}"}
    script = "set -o pipefail\n" + "".join(as_script(section) for section in every if section not in NOT_RUN)
    done = run([binaries / "ucx_gaudi", "run", "--hca", "2", "--ucx", "nixl-1.23", "--", "bash", "-c", script], cwd=directory,
               env=environment)
    shown = [line for section in every if section not in NOT_RUN for line in fenced(section)[1]]
    wrong = [f"'{line}' is not in the output" for line in shown if blanks(line) not in blanks(done.stdout)]
    if done.returncode != 0:
        wrong.append(f"a line failed with {done.returncode}")
    if not shown:
        wrong.append("the page shows no output")
    return done.stdout, wrong


def check_moved(directory):
    """The transfer between the two processes went past the host."""
    moved = json.loads((Path(directory) / "moved.json").read_text())
    staged = sum(card["up_bytes"] + card["down_bytes"] for card in moved["cards"])
    # Of 100 MiB. The section before it has copied, on cards that this counts as well.
    return [] if staged < 64 << 20 else [f"{staged} bytes went through the host"]


def main():
    build = str(Path(sys.argv[1]).resolve())
    every = sections(PAGE.read_text(encoding="utf-8"))
    wrong = check_known_lines() + check_host_lines() + check_fenced_lines(every)
    with tempfile.TemporaryDirectory() as directory:
        output, failed = run_page(build, every, directory)
        if not failed:
            failed = check_moved(directory)
            listed = run(["tar", "tzf", f"{directory}/ucx-gaudi-report.tar.gz"]).stdout.split()
            failed += [f"{name} is not in the report" for name in ("info.json", "copy.log", "copy.rec", "verify.json")
                       if name not in listed]
    if failed:
        print(output[-8000:])
    print("\n".join(wrong + failed))
    return 1 if wrong + failed else 0


if __name__ == "__main__":
    sys.exit(main())
