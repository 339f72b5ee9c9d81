# SPDX-License-Identifier: BSD-3-Clause
"""clang-tidy over the sources of the product and of the models, several at a time."""

import concurrent.futures
import json
import os
import re
import subprocess

from steps import ROOT, Stop, counted


def compiled_sources(build):
    """The sources in src/ and soft/ that a build compiles, each once."""
    commands = json.loads((build / "compile_commands.json").read_text())
    tops = [f"{ROOT / top}{os.sep}" for top in ("src", "soft")]
    return sorted({entry["file"] for entry in commands if entry["file"].startswith(tuple(tops))})


def check(build, source):
    """What clang-tidy prints about one source."""
    run = subprocess.run(["clang-tidy", "-p", str(build), "--quiet", source], cwd=ROOT, stdin=subprocess.DEVNULL,
                         stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, check=False)
    # It says how many warnings it left out on the other stream, which is of use only when nothing else is said.
    return run.stdout or (run.stderr if run.returncode != 0 else "")


def findings(output):
    """Splits an output into its findings. Headers are seen by many sources, so that the same one comes again."""
    return [part for part in re.split(r"(?m)^(?=\S+?:\d+:\d+: (?:warning|error): )", output) if part.strip()]


def tidy(build):
    sources = compiled_sources(build)
    found = {}
    with concurrent.futures.ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool:
        runs = pool.map(lambda source: check(build, source), sources)
        for _ in counted(f"clang-tidy on {len(sources)} sources", len(sources)):
            found.update(dict.fromkeys(findings(next(runs))))
    if found:
        print("\n" + "".join(found).replace(f"{ROOT}{os.sep}", ""))
        raise Stop(f"clang-tidy found {len(found)} things; the list of checks is .clang-tidy.")
    print(f"nothing found in {len(sources)} sources")
