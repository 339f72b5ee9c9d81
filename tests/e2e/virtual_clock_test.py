# SPDX-License-Identifier: BSD-3-Clause
"""virtual_clock_test.py UCX_GAUDI ENGINE PROGRAM: the same program takes the same time on the virtual clock in every run, also
beside a process that keeps a processor busy."""

import json
import os
import subprocess
import sys

RUNS = 3  # the second of them beside a busy process
TOLERANCE = 1.02
PACE = {"SOFTGAUDI_PACE": "virtual:down:25,up:25,card:1000,submit:5,map:20", "SOFTHCA_PACE": "virtual:link:25,latency:2"}
# What a transfer takes at least: its bytes on the link.
LINK_NS = {"put_zero_copy_4096": 4096 / 25, "put_zero_copy_67108864": (64 << 20) / 25, "copy_down_67108864": (64 << 20) / 25,
           "copy_up_67108864": (64 << 20) / 25}


def run(command, busy):
    """What the program printed; with `busy`, beside a process that never sleeps."""
    others = [subprocess.Popen([sys.executable, "-c", "while True: pass"])] if busy else []
    try:
        done = subprocess.run(command, env=os.environ | PACE, stdout=subprocess.PIPE, text=True, check=True)
    finally:
        for other in others:
            other.kill()
            other.wait()
    return json.loads(done.stdout)


def main():
    tool, engine, program = sys.argv[1:]
    command = [tool, "run", "--cards", "2", "--hca", "2", "--ucx", engine, "--", program]
    figures = [run(command, number % 2 == 1) for number in range(RUNS)]
    wrong = []
    for name, first in figures[0].items():
        times = [figure[name] for figure in figures]
        print(f"{name:<32} {min(times):>9} to {max(times):>9} ns")
        if first == 0 or max(times) > TOLERANCE * min(times):
            wrong.append(f"{name} is {times}")
    for name, least in LINK_NS.items():
        if figures[0][name] < least:
            wrong.append(f"{name} is {figures[0][name]}, less than the link takes ({least})")
    sys.exit("\n".join(wrong) or 0)


if __name__ == "__main__":
    main()
