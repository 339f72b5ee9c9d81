# SPDX-License-Identifier: BSD-3-Clause
"""Draws what ./ucx-gaudi bench has measured: bandwidth and latency over size, the transport beside the bare driver and the pace.

    /usr/bin/python3 bench/plot.py build/bench/bench.json build/bench/bench.png

The only part of the project that needs more than Python's standard library (Debian's python3-matplotlib).
"""

import json
import sys

try:
    import matplotlib
except ImportError:
    sys.exit("cannot import matplotlib; install the Debian package python3-matplotlib")

matplotlib.use("Agg")  # no screen is needed
from matplotlib import pyplot  # pylint: disable=wrong-import-position

matplotlib.rcParams["svg.fonttype"] = "none"
matplotlib.rcParams["svg.hashsalt"] = "ucx-gaudi"


def size_text(size, _position=None):
    for unit, name in ((1 << 20, "MiB"), (1 << 10, "KiB")):
        if size >= unit:
            return f"{size / unit:.0f} {name}"
    return f"{size:.0f} B"


def draw(results, path):
    computed = results["bandwidth_over_bare_driver_computed"]
    rows = computed["rows"]
    sizes = [row["size_bytes"] for row in rows]
    link, submit = computed["link_gb_per_s"], computed["submit_us"]
    bare = [row["bare_computed_ns"] for row in rows]
    ours = [row["ours_computed_ns"] for row in rows]
    anchors = [row for row in rows if "h200_ucp_us" in row]

    figure, (rate, time) = pyplot.subplots(1, 2, figsize=(13, 5.5))
    figure.suptitle("ucx-gaudi, in SOFTWARE: no Gaudi card was involved\n"
                    "the added time is measured on softgaudi, the card's own time computed "
                    f"({link} GB/s, {submit} µs per submission)", fontsize=11)

    rate.plot(sizes, [size / ns for size, ns in zip(sizes, bare)], "o--", label="bare driver at this pace (computed)")
    rate.plot(sizes, [size / ns for size, ns in zip(sizes, ours)], "s-", label="ours: bare driver + added time")
    rate.axhline(link, color="gray", linestyle=":", label=f"the link: {link} GB/s")
    rate.set_ylabel("bandwidth, GB/s")
    time.plot(sizes, [ns / 1000 for ns in bare], "o--", label="bare driver at this pace (computed)")
    time.plot(sizes, [ns / 1000 for ns in ours], "s-", label="ours: bare driver + added time")
    time.plot(sizes, [size / link / 1000 for size in sizes], color="gray", linestyle=":",
              label=f"the link alone: {link} GB/s")
    added = results["added_time_over_bare_driver"]
    for window in sorted({row["window"] for row in added}):
        chosen = [row for row in added if row["window"] == window]
        microseconds = [max(row["added_ns_median"], 1) / 1000 for row in chosen]
        time.plot([row["size_bytes"] for row in chosen], microseconds, "^-", alpha=0.7,
                  label=f"added time, {window} at once (measured)")
    if anchors:
        at = [row["size_bytes"] for row in anchors]
        rate.plot(at, [row["size_bytes"] / row["h200_ucp_us"] / 1000 for row in anchors], "x", color="black",
                  label="NVIDIA's module on an H200 (hardware)")
        time.plot(at, [row["h200_ucp_us"] for row in anchors], "x", color="black",
                  label="NVIDIA's module on an H200 (hardware)")
    time.set_ylabel("time per copy, µs")
    time.set_ylim(0.02, 1000)
    for axes in (rate, time):
        axes.set_xscale("log", base=2)
        axes.set_yscale("log")
        axes.set_xticks(sizes)
        axes.xaxis.set_major_formatter(size_text)
        axes.tick_params(axis="x", labelrotation=30)
        axes.set_xlabel("size of a copy from host to card memory")
        axes.grid(True, which="major", alpha=0.3)
    rate.legend(fontsize=8, loc="lower right")
    time.legend(fontsize=8, loc="upper left")
    save(figure, path)


def save(figure, path):
    figure.tight_layout()
    # As text and without the time, an SVG is small and the same for the same figures.
    figure.savefig(path, dpi=110, metadata={"Date": None} if path.endswith(".svg") else None)


def read_results(path):
    try:
        with open(path, encoding="utf-8") as file:
            return json.load(file)
    except (OSError, ValueError) as error:
        sys.exit(f"{path} cannot be read as results of ./ucx-gaudi bench: {error}")


def main():
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    draw(read_results(sys.argv[1]), sys.argv[2])


if __name__ == "__main__":
    main()
