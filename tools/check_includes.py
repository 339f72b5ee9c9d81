#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Checks which folder of src/ and soft/ includes which, and that no units include each other in a ring.

usage: check_includes.py [ROOT]

A unit is a header with the source of the same name. Linkers and compilers accept rings of units as long as the headers
alone have none; readers do not, because no unit of a ring can be understood or tested before the others.
"""

import re
import sys
from pathlib import Path

# What a folder may include besides itself. A folder that has no line here may not exist.
ALLOWED = {
    "src/os": [],
    "src/thunk": ["src/os"],

    # The device layer, free of UCX: its folders in the order in which they stand on each other.
    "src/gaudi": ["src/os", "src/thunk"],  # files beside the folders, which all of them may use
    "src/gaudi/counters": ["src/os", "src/thunk", "src/gaudi"],
    "src/gaudi/card": ["src/os", "src/thunk", "src/gaudi", "src/gaudi/counters"],
    "src/gaudi/framework": ["src/os", "src/thunk", "src/gaudi", "src/gaudi/counters", "src/gaudi/card"],
    "src/gaudi/host": ["src/os", "src/thunk", "src/gaudi", "src/gaudi/counters", "src/gaudi/card", "src/gaudi/framework"],
    "src/gaudi/memory": ["src/os", "src/thunk", "src/gaudi", "src/gaudi/counters", "src/gaudi/card", "src/gaudi/framework",
                         "src/gaudi/host"],
    "src/gaudi/copy": ["src/os", "src/thunk", "src/gaudi", "src/gaudi/counters", "src/gaudi/card", "src/gaudi/framework", "src/gaudi/host",
                       "src/gaudi/memory"],

    "src/ucx": ["src/os", "src/thunk/error.h", "src/thunk/current_exception.h"],  # errors become UCX's status codes; nothing of the device
    "src/uct": ["src/os", "src/thunk", "src/gaudi/", "src/ucx"],
    "src/ucm": ["src/os", "src/thunk", "src/gaudi/", "src/ucx"],
    "src/perftest": ["src/os", "src/thunk", "src/gaudi/", "src/ucx"],
    "src/buffer": ["src/os", "src/thunk", "src/gaudi/"],  # for programs that are not UCX
    # The core starts what is in it; it does nothing with devices itself. Thunk's messages go to UCX's log.
    "src/core": ["src/os", "src/thunk/current_exception.h", "src/thunk/report.h", "src/ucx", "src/uct/register.h",
                 "src/ucm/installer.h",
                 "src/perftest/allocator.h"],
    "src/stubs": ["src/core/core.h", "src/ucm/hook_table.h"],
    "src/record": ["src/os", "src/thunk/abi.h"],  # a drop-in libhl-thunk, loaded into any program
    # A program of its own: it loads UCX as any other does.
    "src/cli": ["src/os", "src/thunk", "src/gaudi/", "src/record", "src/cli/verify/verify.h",
                "src/cli/verify/verify_options.h", "src/cli/doctor/doctor.h", "src/cli/doctor/doctor_options.h",
                "src/cli/doctor/collect.h", "src/cli/info/info.h", "src/cli/topo/topo.h", "src/cli/explain/explain.h", "src/cli/explain/side.h",
                "src/cli/bench/bench.h", "src/cli/bench/bench_options.h", "src/cli/top/top.h",
                "src/cli/top/top_options.h"],
    "src/cli/verify": ["src/os", "src/thunk", "src/gaudi/", "src/cli", "src/cli/doctor/collect.h"],
    "src/cli/doctor": ["src/os", "src/thunk", "src/gaudi/", "src/cli",
                       "src/cli/verify/bench.h", "src/cli/verify/rdma_loopback.h"],  # its round trip copies as verify does
    "src/cli/info": ["src/os", "src/cli", "src/cli/doctor"],  # another view of doctor's facts
    "src/cli/topo": ["src/os", "src/cli", "src/cli/doctor"],  # shows facts of doctor
    # The cause is a check of doctor. Its memory is that of the core in the process; UCX is loaded at run time.
    "src/cli/explain": ["src/os", "src/thunk", "src/gaudi/", "src/cli", "src/cli/doctor", "src/buffer/buffer.h",
                        "src/ucx/abi_ucs.h"],
    "src/cli/bench": ["src/os", "src/thunk", "src/gaudi/", "src/cli",
                      "src/cli/verify/bench.h", "src/cli/verify/interrupt.h",  # patterns of bytes, and the same long runs
                      "src/cli/verify/rdma_loopback.h", "src/cli/verify/report_file.h",
                      "src/cli/doctor/collect.h", "src/cli/doctor/facts.h", "src/cli/doctor/machine.h",
                      "src/cli/topo/server.h"],  # which NICs take dma-bufs, and which is the nearest
    "src/cli/top": ["src/os", "src/thunk", "src/gaudi/counters", "src/cli"],

    "soft/common": ["src/os"],
    "soft/gaudi": ["src/os", "soft/common", "src/thunk/abi.h"],  # softgaudi implements that ABI
    # The software HCA reads and writes what the software Gaudi exports, in the time that both share.
    "soft/hca": ["src/os", "soft/common", "soft/gaudi"],
}

# Headers of others, and the folders that may include them.
FOREIGN = [
    (re.compile(r"uc[mpst]/"), "UCX", ["src/cli"]),  # src/ucx declares by hand what it proves at load
    (re.compile(r"infiniband/"), "libibverbs", ["soft/hca", "src/cli"]),  # loaded at run time
]

INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*(?:"([^"]+)"|<([^>]+)>)', re.MULTILINE)
ROOTS = ("src", "soft")


def sources(root):
    files = [path for top in ROOTS for path in (root / top).rglob("*") if path.suffix in (".h", ".cpp", ".c")]
    return sorted(path.relative_to(root).as_posix() for path in files)


def resolve(root, name, included):
    """The file that a quoted include means: beside the including file, in a folder above it, or in src/ or soft/."""
    above = [folder for folder in Path(name).parents if folder != Path(".")]
    for folder in [*above, *map(Path, ROOTS)]:
        path = root / folder / included
        if path.is_file():
            return path.resolve().relative_to(root).as_posix()
    return None


def folder_of(name):
    """The folder of the table that a file belongs to, or None."""
    for folder in Path(name).parents:
        if folder.as_posix() in ALLOWED:
            return folder.as_posix()
    return None


def allows(rule, target, folder):
    """A rule names a file, a folder without the folders in it, or with a / at its end a folder with all of them."""
    if rule.endswith("/"):
        return target.startswith(rule)
    return rule in (target, folder)


def check_folders(name, target):
    """A sentence about an include that points in a direction that is not allowed, or None."""
    own, other = folder_of(name), folder_of(target)
    if own is None or other is None:
        stray = name if own is None else target
        return f"{stray} lies in a folder that has no line in ALLOWED of tools/check_includes.py."
    if own == other or any(allows(rule, target, other) for rule in ALLOWED[own]):
        return None
    may = ", ".join(ALLOWED[own]) or "nothing"
    return f"{name} includes {target}: {own} may include itself and {may}."


def check_foreign(name, header):
    own = folder_of(name)
    for pattern, owner, folders in FOREIGN:
        if pattern.match(header) and own not in folders:
            return f"{name} includes <{header}>: headers of {owner} belong into {', '.join(folders)} only."
    return None


def unit_of(name):
    return name.rsplit(".", 1)[0]


def read(root):
    """All sentences about single includes, and the units that each unit includes: {unit: {unit: 'file includes file'}}."""
    wrong, units = [], {}
    for name in sources(root):
        edges = units.setdefault(unit_of(name), {})
        for quoted, angle in INCLUDE.findall((root / name).read_text(errors="replace")):
            if angle:
                wrong.append(check_foreign(name, angle))
                continue
            target = resolve(root, name, quoted)
            if target is None:
                wrong.append(f'{name} includes "{quoted}", which is neither beside it nor in src/ nor in soft/.')
                continue
            wrong.append(check_folders(name, target))
            if unit_of(target) != unit_of(name):
                edges.setdefault(unit_of(target), f"{name} includes {target}")
    return list(dict.fromkeys(sentence for sentence in wrong if sentence)), units


def shortest_ring(units, start):
    """The units of the shortest way from a unit back to itself, or None."""
    came_from, queue = {}, [start]
    for unit in queue:
        for target in units.get(unit, {}):
            if target == start:
                ring = [unit]
                while ring[-1] != start:
                    ring.append(came_from[ring[-1]])
                return ring[::-1]
            if target not in came_from:
                came_from[target] = unit
                queue.append(target)
    return None


def check_rings(units):
    """A sentence for each ring; rings that share a unit with one already named are left for after its repair."""
    wrong, named = [], set()
    rings = {unit: shortest_ring(units, unit) for unit in units}
    for ring in sorted((ring for ring in rings.values() if ring), key=len):
        if named.isdisjoint(ring):
            named.update(ring)
            steps = ", ".join(units[unit][target] for unit, target in zip(ring, ring[1:] + ring[:1]))
            wrong.append(f"units include each other in a ring, {' -> '.join(ring + ring[:1])}: {steps}.")
    hidden = sorted(unit for unit, ring in rings.items() if ring and unit not in named)
    if hidden:
        wrong.append(f"further units are in rings with those: {', '.join(hidden)}.")
    return wrong


def main():
    if len(sys.argv) > 2:
        print("usage: check_includes.py [ROOT]", file=sys.stderr)
        return 2
    root = Path(sys.argv[1] if len(sys.argv) == 2 else Path(__file__).parent.parent).resolve()
    wrong, units = read(root)
    if not units:
        print(f"check_includes: there are no sources in {root}/src and {root}/soft.", file=sys.stderr)
        return 2
    wrong += check_rings(units)
    for sentence in wrong:
        print(sentence)
    if not wrong:
        print(f"{len(units)} units include each other in the allowed directions, and none in a ring")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
