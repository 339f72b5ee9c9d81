# SPDX-License-Identifier: BSD-3-Clause
"""start_cost.py INSTRUCTIONS HEAP DIRTY PROGRAM

Counts what ucx-gaudi adds to ucp_init: instructions (with callgrind), bytes on the heap, and bytes of pages that are written
to. The program calls ucp_init once, with our modules and without. Fails if more than the given numbers are ours. What the
software cards take counts for the bytes, which cannot be told apart, and not for the instructions.
"""

import collections
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

from instructions import costs

UCP_INIT = "ucp_init_version"  # what ucp_init of ucp.h calls


def run(command, modules):
    done = subprocess.run(command, env={**os.environ, "UCX_MODULES": modules}, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True, check=False)
    if done.returncode != 0:
        sys.exit(f"{done.stdout}\n{command} failed")
    return done.stdout


def count_instructions(program, modules):
    """By object file, and by function."""
    with tempfile.TemporaryDirectory() as directory:
        output = Path(directory) / "out"
        run(["valgrind", "--tool=callgrind", f"--toggle-collect={UCP_INIT}", f"--callgrind-out-file={output}", program],
            modules)
        objects, functions = costs(output)
    software = next((name for name in objects if Path(name).name.startswith("libhl-thunk")), None)
    objects.pop(software, None)
    return objects, functions


def count_bytes(program, modules):
    """The growth of the heap and of written pages."""
    return map(int, re.search(r"heap (-?\d+) dirty (-?\d+)", run([program], modules)).groups())


def main():
    if len(sys.argv) != 5:
        sys.exit("usage: start_cost.py INSTRUCTIONS HEAP DIRTY PROGRAM")
    limits, program = [int(limit) for limit in sys.argv[1:4]], sys.argv[4]
    (objects, functions), (without, functions_without) = (count_instructions(program, modules)
                                                          for modules in ("all", "^gaudi"))
    (heap, dirty), (heap_without, dirty_without) = (count_bytes(program, modules) for modules in ("all", "^gaudi"))
    total = sum(without.values())
    ours = [sum(objects.values()) - total, heap - heap_without, dirty - dirty_without]
    print(f"ucp_init without our modules: {total} instructions, {heap_without} bytes on the heap, "
          f"{dirty_without} in written pages")
    print(f"our modules add {ours[0]} instructions, {ours[1]} bytes on the heap, {ours[2]} in written pages")

    def difference(one, other):
        return collections.Counter({key: cost - other.get(key, 0) for key, cost in one.items()})

    print("by library:")
    for name, cost in difference(objects, without).most_common(8):
        print(f"  {cost:9}  {Path(name).name}")
    print("by function:")
    for (name, function), cost in difference(functions, functions_without).most_common(15):
        print(f"  {cost:9}  {Path(name).name}: {function[:80]}")
    if not any("gaudi-core" in name for name in objects):
        sys.exit("none were seen in our objects: the program did not load them")
    names = ("instructions", "bytes on the heap", "bytes in written pages")
    failed = [f"{count} {name}, at most {limit} are allowed"
              for count, name, limit in zip(ours, names, limits) if count > limit]
    if failed:
        sys.exit("; ".join(failed))


if __name__ == "__main__":
    main()
