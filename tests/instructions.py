# SPDX-License-Identifier: BSD-3-Clause
"""instructions.py WHAT LIMIT PROGRAM [ARGUMENTS]

Counts, with callgrind, the instructions that one WHAT takes in our own objects and in UCX's. The program is told as its
last argument how many to do, and runs twice with different numbers, so that what happens once counts nothing. Fails if
ours are more than LIMIT.
"""

import collections
import re
import subprocess
import sys
import tempfile
from pathlib import Path

FEW, MANY = 640, 3200


def costs(path):
    """Instructions by object file and by function, each counted where it is executed."""
    names, objects, functions = {}, collections.Counter(), collections.Counter()
    current = {"ob": "", "fn": ""}
    skip = False
    for line in path.read_text(errors="replace").splitlines():
        named = re.match(r"(ob|fn)=\((\d+)\)(?: (.*))?$", line)
        if named:
            kind, number, name = named.groups()
            if name:
                names[kind, number] = name
            current[kind] = names[kind, number]
        elif line.startswith(("cob=", "cfn=")):
            known = re.match(r"c(ob|fn)=\((\d+)\)(?: (.*))?$", line)
            if known and known[3]:
                names[known[1], known[2]] = known[3]
        elif line.startswith("calls="):
            skip = True  # the next line is what the callee took
        elif re.match(r"[+\-*\d]", line):
            if not skip:
                cost = int(line.split()[1])
                objects[current["ob"]] += cost
                functions[current["ob"], current["fn"]] += cost
            skip = False
    return objects, functions


def run(command, count):
    with tempfile.TemporaryDirectory() as directory:
        output = Path(directory) / "out"
        done = subprocess.run(["valgrind", "--tool=callgrind", f"--callgrind-out-file={output}", *command, str(count)],
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
        if done.returncode != 0:
            sys.exit(f"{done.stdout}\ncallgrind failed")
        return costs(output)


def main():
    if len(sys.argv) < 4 or not sys.argv[2].isdigit():
        sys.exit("usage: instructions.py WHAT LIMIT PROGRAM [ARGUMENTS]")
    what, limit, command = sys.argv[1], int(sys.argv[2]), sys.argv[3:]
    (few, few_functions), (many, functions) = run(command, FEW), run(command, MANY)
    count = MANY - FEW
    many.subtract(few)
    functions.subtract(few_functions)

    def share(word):
        return sum(cost for name, cost in many.items() if word in Path(name).name) / count

    # Not libucm: it spins while it starts, for longer or shorter.
    ours, ucx = share("gaudi-core"), sum(share(word) for word in ("libucp", "libuct", "libucs"))
    print(f"instructions per {what}: {ours:.0f} in our objects, {ucx:.0f} in UCX's")
    print("by library:")
    for name, cost in many.most_common(8):
        print(f"  {cost / count:7.1f}  {Path(name).name}")
    print("our functions:")
    for (_, name), cost in sorted(((key, cost) for key, cost in functions.items() if "gaudi-core" in key[0]),
                                  key=lambda item: -item[1])[:15]:
        print(f"  {cost / count:7.1f}  {name[:100]}")
    if ours == 0:
        sys.exit("none were seen in our objects: the program did not use them")
    if ours > limit:
        sys.exit(f"at most {limit} are allowed")


if __name__ == "__main__":
    main()
