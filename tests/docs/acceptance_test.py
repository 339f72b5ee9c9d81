#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Runs the commands of docs/acceptance.md and checks that the tests it names exist.

usage: acceptance_test.py BUILD-DIRECTORY
"""

import json
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def commands_of(page):
    """(command, excerpts) of the page, each command once."""
    found = {}
    command = None
    for line in page.splitlines():
        if line.startswith("    $ "):
            command = line[6:]
            found.setdefault(command, [])
        elif line.startswith("    > "):
            found[command].append(line[6:])
    return found


def tests_of(page):
    return {name for line in page.splitlines() if line.startswith("Tests: ") for name in re.findall(r"`([^`]+)`", line)}


def known_tests(build):
    """ctest's list, and the names in the sources if programs are not built, as when one group is."""
    shown = subprocess.run(["ctest", "--test-dir", build, "--show-only=json-v1"], check=True, capture_output=True)
    names = [test["name"] for test in json.loads(shown.stdout)["tests"]]
    if any(name.endswith("_NOT_BUILT") for name in names):
        for path in (ROOT / "tests").rglob("*.cpp"):
            names += [".".join(pair) for pair in re.findall(r"\bTEST(?:_[FP])?\((\w+),\s*(\w+)\)", path.read_text())]
    return names


def blanks(text):
    return " ".join(text.split())


def main():
    build = str(Path(sys.argv[1]).resolve())
    page = (ROOT / "docs" / "acceptance.md").read_text(encoding="utf-8")
    wrong = []
    listed = known_tests(build)
    names = "\n".join(listed) + "\n"
    for test in sorted(tests_of(page)):
        if not re.search(r"(?:^|/)" + re.escape(test) + r"(?:/|\s|$)", names, re.M):
            wrong.append(f"there is no test {test}")
    commands = commands_of(page)
    for command, excerpts in commands.items():
        if not excerpts:
            wrong.append(f"$ {command}: no excerpt to look for")
        run = subprocess.run(["bash", "-c", command.replace("build/release", build)], cwd=ROOT, text=True, timeout=120,
                             stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)
        wrong += [f"$ {command}: '{excerpt}' is not in its output:\n{run.stdout[-2000:]}" for excerpt in excerpts
                  if blanks(excerpt) not in blanks(run.stdout)]
    if not commands:
        wrong.append("the page has no command")
    if wrong and any(name.endswith("_NOT_BUILT") for name in listed):
        wrong.append("not all tests are compiled, and what is wrong may be due to that: run `./ucx-gaudi test` or build the "
                     "target tests")
    print("\n".join(wrong))
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
