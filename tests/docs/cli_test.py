#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Runs the commands of docs/cli.md and compares what they print with the page, or writes it there.

usage: cli_test.py BUILD-DIRECTORY [--write]

A block of the page begins with a line `$ COMMAND`; what follows is what the command prints. A block behind the comment
`<!-- masked -->` has figures that differ from run to run: numbers, and what is drawn or aligned by them, do not count there. A
picture that a command writes is compared byte for byte if the page shows it.
"""

import difflib
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "cli.md"
MASKED = "<!-- masked -->"
BLOCK = re.compile(rf"(?P<masked>{MASKED}\n)?```console\n\$ (?P<command>[^\n]+)\n(?P<output>.*?)```\n", re.DOTALL)
PICTURE = re.compile(r"--(?:svg|plot) docs/(\S+)")
TIME_LIMIT_S = 120


def mask(text):
    """The text without numbers and units, and without what depends on them."""
    text = re.sub(r"\d[\d,.]*(?: ?[KMGT]i?B\b| ?[num]s\b)?", "N", text)
    return "\n".join(re.sub(r"[ \-─━#.]+", " ", line).strip() for line in text.splitlines())


def print_of(command, build, pictures):
    """What a command prints, on a machine that has no settings of UCX and Gaudi. Pictures go into another directory."""
    kept = {name: value for name, value in os.environ.items()
            if not re.match(r"UCX_|GAUDI_|HABANA_|SOFTGAUDI_|SOFTHCA_|OMPI_|LD_LIBRARY_PATH|VIRTUAL_ENV", name)}
    environment = {**kept, "PATH": f"{build}/bin:{kept['PATH']}", "NO_COLOR": "1", "COLUMNS": "120"}
    command = PICTURE.sub(lambda found: found[0].replace("docs/", f"{pictures}/"), command)
    done = subprocess.run(["bash", "-c", command], cwd=ROOT, env=environment, text=True, timeout=TIME_LIMIT_S,
                          stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)
    return done.stdout.replace(f"{pictures}/", "docs/").replace(f"{build}/", "build/release/").replace(f"{ROOT}/", "")


def difference(printed, wanted, masked):
    if masked:
        printed, wanted = mask(printed), mask(wanted)
    return "\n".join(difflib.unified_diff(wanted.splitlines(), printed.splitlines(), "docs/cli.md", "printed",
                                          lineterm=""))


def main():
    build, write = str(Path(sys.argv[1]).resolve()), "--write" in sys.argv[2:]
    page = PAGE.read_text(encoding="utf-8")
    wrong = []
    with tempfile.TemporaryDirectory() as pictures:
        def run(block):
            printed = print_of(block["command"], build, pictures)
            if differing := difference(printed, block["output"], block["masked"]):
                wrong.append(f"$ {block['command']}\n{differing}")
            if not block["masked"]:
                for name in PICTURE.findall(block["command"]):
                    made = Path(pictures, name).read_bytes()
                    if made != (ROOT / "docs" / name).read_bytes() if (ROOT / "docs" / name).exists() else True:
                        wrong.append(f"$ {block['command']}\ndocs/{name} is another picture")
            if write:
                for name in PICTURE.findall(block["command"]):
                    (ROOT / "docs" / name).write_bytes(Path(pictures, name).read_bytes())
            return f"{block['masked'] or ''}```console\n$ {block['command']}\n{printed}```\n"

        written = BLOCK.sub(run, page)
        blocks = len(BLOCK.findall(page))
    if write:
        PAGE.write_text(written, encoding="utf-8")
        print(f"{blocks} blocks written")
        return 0
    if not blocks:
        wrong.append("the page has no block")
    print("\n\n".join(wrong) + "\nafter a change that is meant: tests/docs/cli_test.py build/release --write" if wrong else
          f"{blocks} blocks are as printed")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
