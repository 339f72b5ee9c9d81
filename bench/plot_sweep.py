# SPDX-License-Identifier: BSD-3-Clause
"""Draws the protocol sweep of ./ucx-gaudi bench: bandwidth over size for each path, host to host memory as the limit.

    /usr/bin/python3 bench/plot_sweep.py build/bench/bench.json build/bench/sweep.png
"""

import sys

from plot import pyplot, read_results, save, size_text

PANELS = (("over RDMA, on the virtual clock (24 GB/s, 6 µs per submission; link 25 GB/s, 2 µs)",
           ("gaudi to gaudi, zero copy", "gaudi to gaudi, staged", "host to host, RDMA")),
          ("without an RDMA NIC, by the wall clock of one machine, cards at the same pace",
           ("gaudi to gaudi, sm", "gaudi to gaudi, tcp", "host to host, sm", "host to host, tcp")))


def draw(results, path):
    figure, panels = pyplot.subplots(1, 2, figsize=(13, 5.5))
    figure.suptitle("ucx-gaudi, in SOFTWARE: no Gaudi card and no NIC was involved\n"
                    "messages between two processes, with the protocol that UCX chooses", fontsize=11)
    for axes, (title, paths) in zip(panels, PANELS):
        for name in paths:
            rows = [row for row in results["protocol_sweep"] if row["path"] == name]
            sizes = [row["size_bytes"] for row in rows]
            rates = [row["size_bytes"] / min(row["protocols_ns"]["choice"], row["protocols_ns"]["choice again"])
                     for row in rows]
            axes.plot(sizes, rates, "o:" if name.startswith("host") else "s-", label=name, markersize=4)
        axes.set_title(title, fontsize=9)
        axes.set_xscale("log", base=2)
        axes.set_yscale("log")
        axes.xaxis.set_major_formatter(size_text)
        axes.tick_params(axis="x", labelrotation=30)
        axes.set_xlabel("size of a message")
        axes.set_ylabel("bandwidth, GB/s")
        axes.grid(True, which="major", alpha=0.3)
        axes.legend(fontsize=8, loc="lower right")
    save(figure, path)


def main():
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    draw(read_results(sys.argv[1]), sys.argv[2])


if __name__ == "__main__":
    main()
