# SPDX-License-Identifier: BSD-3-Clause
"""./ucx-gaudi bench: runs the benchmarks, prints their tables, writes them as JSON and draws a picture."""

import json
import statistics
from pathlib import Path

from measure import (MET, MISSED, NO_TIME, RESULTS, SOFTWARE, Added, Factor, Ratio, Report, Runner, judge,
                     size_text)
from peer_rows import measure_peer
from steps import ROOT, Stop, shown, step, tail
from sweep_rows import measure_sweep

# As on a Gaudi2 server: PCIe gen 4 x16 per card, 200 Gb/s per HCA; microseconds per submission, mapping and message.
LINK_GB_PER_S, SUBMIT_US, MAP_US = 25, 5, 20
SERVER = {"SOFTGAUDI_PACE": f"virtual:down:{LINK_GB_PER_S},up:{LINK_GB_PER_S},card:1000,submit:{SUBMIT_US},map:{MAP_US}",
          "SOFTHCA_PACE": "virtual:link:25,latency:2"}

# NVIDIA's cuda_copy on an H200 (UCX 1.22.0, host to card): microseconds of cudaMemcpyAsync on pinned memory, streaming,
# and of a UCP put. One run on one machine, with hardware; ours is software and UCT: a yardstick, not a race.
H200 = {8: (2.22, 5.29), 4096: (2.66, 3.75), 65536: (3.86, 4.39), 1 << 20: (21.81, 21.88), 64 << 20: (1215, 1232)}
ANCHOR = "H200: NVIDIA's own module on its card, UCP put against the raw driver, host to card, one run"


# ---- what we add to the bare driver ---------------------------------------------------------------------------------


def added_time(report, data):
    bar = 500
    report.head("Added time: uct_ep_put_zcopy beyond a bare loop of the same libhl-thunk calls, per copy, on a card\n"
                "that takes no time itself",
                f"  {'size':>8}  {'at once':>7}  {'bare':>8}  {'added':>8}  {'quartiles':<17} {'noise':<17} "
                f"{'calls':<11} {'bar':<24} H200")
    rows = []
    for sample in data["rows"]:
        added, size, window = Added(sample), sample["size_bytes"], sample["window"]
        bare = statistics.median(sample["base_ns"])
        verdict = report.verdict(added.at_most(bar), f"added time of {size_text(size)}, {window} at once")
        calls = [sample[side]["driver_calls_per_operation"] for side in ("base_cost", "other_cost")]
        anchor = f"{H200[size][1] - H200[size][0]:.2f} us" if size in H200 and window == 1 else ""
        print(f"  {size_text(size):>8}  {window:>7}  {bare:>5.0f} ns  {added.median:>5.0f} ns  "
              f"{f'{added.low:.0f} to {added.high:.0f}':<17} {f'{added.noise_low:.0f} to {added.noise_high:.0f}':<17} "
              f"{f'{calls[0]:.2f}, {calls[1]:.2f}':<11} {f'{bar} ns {verdict}':<24} {anchor}")
        row = {"size_bytes": size, "window": window, "bar_ns": bar, "bare_ns_median": bare,
               **added.json("added", "_ns"), "bare_cost": sample["base_cost"], "ours_cost": sample["other_cost"]}
        if anchor:
            row["h200_added_us"] = H200[size][1] - H200[size][0]
        rows.append(row)
    print(f"  calls: of libhl-thunk per copy, bare and ours\n  {ANCHOR}")
    report.add("added_time_over_bare_driver", rows)


def bare_ns(size):
    return SUBMIT_US * 1000 + size / LINK_GB_PER_S


def bandwidth_ratio(report, data):
    bars = {4096: 0.75, 65536: 0.95, 1 << 20: 0.99}
    report.head("Computed, not measured: our bandwidth as a fraction of that of the bare driver, from the added time, on\n"
                f"a link of {LINK_GB_PER_S} GB/s with {SUBMIT_US} us per submission, one copy at a time",
                f"  {'size':>8}  {'bare':>9}  {'ours':>9}  {'ratio':>6}  {'bar':<22} H200")
    rows = []
    for sample in data["rows"]:
        if sample["window"] != 1:
            continue
        added, size = Added(sample), sample["size_bytes"]
        bare = bare_ns(size)
        ratio, bar = bare / (bare + added.median), bars.get(size)
        best, worst = (bare / (bare + more) for more in added.reach())
        verdict = (report.verdict(judge(worst, best, at_least=bar), f"computed bandwidth of {size_text(size)}")
                   if bar else "")
        anchor = f"{H200[size][0] / H200[size][1]:.2f}" if size in H200 else ""
        ours = bare + added.median
        print(f"  {size_text(size):>8}  {bare / 1000:>6.2f} us  {ours / 1000:>6.2f} us  {ratio:>6.3f}  "
              f"{f'{bar} {verdict}' if bar else '':<22} {anchor}")
        row = {"size_bytes": size, "bare_computed_ns": bare, "ours_computed_ns": ours, "ratio_computed": ratio}
        if bar:
            row["bar"] = bar
        if anchor:
            row.update(h200_raw_us=H200[size][0], h200_ucp_us=H200[size][1])
        rows.append(row)
    report.add("bandwidth_over_bare_driver_computed",
               {"link_gb_per_s": LINK_GB_PER_S, "submit_us": SUBMIT_US, "rows": rows})


def large_copies(report, data):
    report.head("Large copies: the bytes that the card moves for each byte, and submissions. The time is the model's own,\n"
                "so it has no bar: against memcpy of the same bytes on this machine",
                f"  {'':<12} {'size':>8}  {'bytes moved':>11}  {'bar':<8} {'submissions':>11}  {'memcpy':>9}  {'ours':>9}  "
                f"{'ratio':>5}  {'quartiles':<14} noise")
    rows = []
    for sample in data["rows"]:
        ratio, size, direction = Ratio(sample), sample["size_bytes"], sample["direction"]
        rates = [size / statistics.median(sample[name]) for name in ("base_ns", "other_ns")]
        moved = sample["moved_bytes"] / size
        verdict = report.verdict(judge(moved, moved, at_most=1.001),  # and the completion flag
                                 f"bytes moved for {direction}, {size_text(size)}")
        print(f"  {direction:<12} {size_text(size):>8}  {moved:>11.3f}  {f'1 {verdict}':<8} {sample['submissions']:>11}  "
              f"{rates[0]:>4.1f} GB/s  {rates[1]:>4.1f} GB/s  {ratio.median:>5.2f}  "
              f"{f'{ratio.low:.2f} to {ratio.high:.2f}':<14} {ratio.noise_low:.2f} to {ratio.noise_high:.2f} "
              f"{ratio.says()}".rstrip())
        rows.append({"direction": direction, "size_bytes": size, "moved_bytes": sample["moved_bytes"],
                     "submissions": sample["submissions"], "memcpy_gb_per_s_median": rates[0],
                     "ours_gb_per_s_median": rates[1], **ratio.json("ratio")})
    report.add("large_copies", rows)


def measure_copies(report, runner, rounds):
    added = runner.run("added time", ["bench_copies", "added", str(rounds), runner.program("softgaudi_stat")],
                       ["--cards", "2"], env=NO_TIME)
    large = runner.run("large copies", ["bench_copies", "large", str(rounds), runner.program("softgaudi_stat")],
                       ["--cards", "1"])
    return lambda: (added_time(report, added), bandwidth_ratio(report, added), large_copies(report, large))


# ---- descriptors through UCP ----------------------------------------------------------------------------------------


def descriptors(report, samples):
    first = samples["at once"]["other"]
    count, size = first["count"], first["size_bytes"]
    report.head(f"{count:,} puts of {size_text(size)} through UCP, then a flush, against the same program on a null\n"
                "transport that completes at once, or at the next progress as every transport must that takes time",
                f"  {'it ends':<12} {'nothing':>9}  {'ours':>9}  {'factor':>6}  {'quartiles':<16} {'noise':<14} bar")
    rows = []
    for when, sample in samples.items():
        factor, bar = Factor(sample), 2 if when == "at once" else None
        per_put = [statistics.median(sample[name]) / count for name in ("base_ns", "other_ns")]
        verdict = report.verdict(factor.at_most(bar), "UCP puts against a transport that does nothing") if bar else ""
        print(f"  {when:<12} {per_put[0]:>6.0f} ns  {per_put[1]:>6.0f} ns  {factor.median:>6.2f}  "
              f"{f'{factor.low:.2f} to {factor.high:.2f}':<16} "
              f"{f'{factor.noise_low:.2f} to {factor.noise_high:.2f}':<14} "
              f"{f'{bar} {verdict}' if bar else ''}".rstrip())
        rows.append({"null_ends": when, "count": count, "size_bytes": size, "null_ns_per_put_median": per_put[0],
                     "ours_ns_per_put_median": per_put[1], **factor.json("factor"), **({"bar": bar} if bar else {})})
    report.add("ucp_puts_over_null_transport_time", rows)


def measure_descriptors(report, runner, rounds, quick):
    words, options = ["bench_descriptors", "10000" if quick else "100000"], ["--cards", "1"]
    path = f"UCX_PLUGIN_PATH={runner.directory / 'lib' / 'null'}"
    ours = runner.command(words, options)
    samples = {}
    # The second has no bar but explains the first: its difference to the first is UCX's cost of any copy that takes time.
    for when, variables in (("at once", [path]), ("at progress", [path, "BENCH_NULL_LATER=1"])):
        null = runner.command(words, options, variables=variables)
        samples[when] = runner.turns(f"UCP puts, nothing {when}", rounds, null, ours, env=NO_TIME)
    return lambda: descriptors(report, samples)


# ---- memory hooks ---------------------------------------------------------------------------------------------------


def hooks(report, samples):
    bar = 500
    report.head("Memory hooks: the time that the hooks and UCX's handling of their events add to calls of libhl-thunk\n"
                "(allocate, map, unmap, free 1 MiB), per call",
                f"  {'mapping takes':>13}  {'others':>6}  {'bare':>8}  {'added':>8}  {'quartiles':<13} "
                f"{'noise':<13} {'factor':>6}  bar")
    rows = []
    for takes, sample in samples:
        added, factor, others = Added(sample), Factor(sample), sample["other_mappings"]
        bare = statistics.median(sample["base_ns"])
        verdict = report.verdict(added.at_most(bar), f"memory hooks, {others} other mappings, {takes} us per mapping")
        print(f"  {f'{takes} us' if takes else 'no time':>13}  {others:>6}  {bare:>5.0f} ns  "
              f"{added.median:>5.0f} ns  {f'{added.low:.0f} to {added.high:.0f}':<13} "
              f"{f'{added.noise_low:.0f} to {added.noise_high:.0f}':<13} {factor.median:>6.3f}  {bar} ns {verdict}")
        rows.append({"mapping_takes_us": takes, "other_mappings": others, "bar_ns": bar, "bare_ns_median": bare,
                     **added.json("added", "_ns"), "factor_median": factor.median})
    print("  others: mappings that the program has besides")
    report.add("memory_hooks_added_time", rows)


def measure_hooks(report, runner, rounds):
    samples = []
    for takes, pace in ((0, NO_TIME), (MAP_US, {"SOFTGAUDI_PACE": f"map:{MAP_US}"})):
        data = runner.run(f"memory hooks, {takes} us per mapping", ["bench_hooks", str(rounds)], ["--cards", "1"], env=pace)
        samples += [(takes, row) for row in data["rows"]]
    return lambda: hooks(report, samples)


# ---- micro-benchmarks -----------------------------------------------------------------------------------------------


def micro(report, benchmarks):
    def taken_by(entry):
        return 1e9 / entry["items_per_second"] if "items_per_second" in entry else entry["cpu_time"]

    medians = {entry["run_name"]: taken_by(entry) for entry in benchmarks if entry.get("aggregate_name") == "median"}
    bars = {"find_among_10000/threads:1": 50, "find_among_10000/threads:8": 50,
            "count_ended_copies": round(medians["post_and_complete/1024"] / 100, 2)}  # 1 % of a copy at its cheapest
    report.head("Micro-benchmarks: processor time per step, softgaudi's part included",
                f"  {'step':<34} {'median':>10}  bar")
    rows = []
    deviations = {entry["run_name"]: entry["cpu_time"] for entry in benchmarks if entry.get("aggregate_name") == "cv"}
    for entry in benchmarks:
        if entry.get("aggregate_name") != "median":
            continue
        name = entry["run_name"]
        taken, bar = taken_by(entry), bars.get(name)
        spread = taken * deviations.get(name, 0)
        verdict = report.verdict(judge(taken - spread, taken + spread, at_most=bar), name) if bar else ""
        print(f"  {name:<34} {taken:>7.1f} ns  {f'{bar} ns {verdict}' if bar else ''}".rstrip())
        rows.append({"step": name, "cpu_ns_median": taken, **({"bar_ns": bar} if bar else {})})
    report.add("micro", rows)


def measure_micro(report, runner, quick):
    RESULTS.mkdir(parents=True, exist_ok=True)
    out = RESULTS / "micro.json"
    options = [f"--benchmark_out={out}", "--benchmark_out_format=json", "--benchmark_report_aggregates_only=true",
               f"--benchmark_min_time={0.01 if quick else 0.1}", f"--benchmark_repetitions={3 if quick else 9}"]
    polled = "poll_a_copy_on_its_way"
    benchmarks = []
    # Polling needs a copy that takes long: 2 MiB over a link of 20 MB/s.
    for title, choice, env in (("micro-benchmarks", f"-{polled}", NO_TIME),
                               ("micro-benchmark of polling", polled, {"SOFTGAUDI_PACE": "down:0.02"})):
        runner.start(title, ["bench_micro", *options, f"--benchmark_filter={choice}"], ["--cards", "1"], env=env)
        benchmarks += json.loads(out.read_text())["benchmarks"]
    return lambda: micro(report, benchmarks)


# ---- zero copy over RDMA --------------------------------------------------------------------------------------------


def rdma_against_host(report, data):
    report.head("Zero copy: UCP put from Gaudi to Gaudi memory over RDMA against the same from host to host memory, wall\n"
                "time. It is that of the models' system calls, so it has no bar; the virtual clock below has",
                f"  {'size':>8}  {'bandwidth':>9}  {'quartiles':<15} noise")
    rows = []
    for sample in data["rows"]:
        ratio, size = Ratio(sample), sample["size_bytes"]
        print(f"  {size_text(size):>8}  {ratio.median:>9.2f}  {ratio.low:.2f} to {ratio.high:.2f}    "
              f"{ratio.noise_low:.2f} to {ratio.noise_high:.2f} {ratio.says()}".rstrip())
        rows.append({"size_bytes": size, **ratio.json("ratio")})
    report.add("rdma_put_gaudi_over_host_bandwidth", rows)


def rdma_registrations(report, data):
    report.head("Registration of 1 MiB with UCX: the first use, and a hit in its cache",
                f"  {'memory':>8}  {'first use':>10}  {'hit':>8}")
    for kind, cost in data["registration"].items():
        first, hit = statistics.median(cost["first_us"]), statistics.median(cost["hit_us"])
        print(f"  {kind:>8}  {first:>7.1f} us  {hit:>5.2f} us")
        report.add(f"registration_{kind}", {"first_us_median": first, "hit_us_median": hit})


def rdma_on_virtual_clock(report, data):
    bar = 0.97
    report.head("Zero copy against host memory and against staging in it, on the virtual clock (PCIe gen 4 x16, 200 Gb/s\n"
                "per HCA)",
                f"  {'':<8} {'size':>8}  {'host memory':>12}  {'zero copy':>12}  {'bandwidth':>9}  {'bar':<11} {'staged':>12}  "
                "factor")
    for row in data["rows"]:
        host, zero, staged = (row[f"{name}_virtual_ns"] for name in ("host", "zero_copy", "staged"))
        ratio, factor = host / zero, staged / zero
        row.update(ratio_over_host=ratio, factor=factor, bar=bar)
        what = f"{row['what']} of {size_text(row['size_bytes'])}"
        as_host = report.verdict(judge(ratio, ratio, at_least=bar), f"{what} against host memory, virtual clock")
        verdict = report.verdict(MET if staged > zero else MISSED, f"{what} against staging")
        print(f"  {row['what']:<8} {size_text(row['size_bytes']):>8}  {host / 1000:>9.1f} us  {zero / 1000:>9.1f} us  "
              f"{ratio:>9.2f}  {f'{bar} {as_host}':<11} {staged / 1000:>9.1f} us  {factor:>6.1f} {verdict}")
    report.add("rdma_zero_copy_on_virtual_clock", data["rows"])


def measure_rdma(report, runner, rounds):
    devices = ["--cards", "2", "--hca", "2"]
    wall = runner.run("RDMA against host memory", ["bench_rdma", "wall", str(rounds)], devices, ucx="nixl-1.23")
    staged = runner.run("RDMA against staging", ["bench_rdma", "staged"], devices, env=SERVER, ucx="nixl-1.23")
    return lambda: (rdma_against_host(report, wall), rdma_registrations(report, wall),
                    rdma_on_virtual_clock(report, staged))


def has_ib(ucx):
    return not ucx or bool(list(Path(ucx).glob("lib*/ucx/libuct_ib.so*")))


def draw(results):
    """Draws the pictures, if matplotlib is there."""
    python = "/usr/bin/python3"  # the one that Debian's matplotlib is for
    for program, name in (("plot.py", "bench.png"), ("plot_sweep.py", "sweep.png")):
        picture = RESULTS / name
        picture.unlink(missing_ok=True)
        command = [python, str(ROOT / "bench" / program), str(results), str(picture)]
        code, log = step(f"draw {name}", command, f"bench-{name}", may_fail=True)
        print(f"picture: {shown(picture)}" if code == 0 else f"{tail(log, 1)}\nno picture, see {shown(log)}")


def bench(directory, ucx, quick):
    rounds = 5 if quick else 21
    report, runner = Report(), Runner(directory, ucx)
    show = [measure_copies(report, runner, rounds), measure_descriptors(report, runner, rounds, quick),
            measure_hooks(report, runner, rounds), measure_micro(report, runner, quick),
            measure_peer(report, runner, rounds, quick), measure_sweep(report, runner, quick, has_ib(ucx))]
    if has_ib(ucx):
        show.append(measure_rdma(report, runner, rounds))
    else:
        print("  this UCX has no ib module, so RDMA is not measured")
    print(f"\n{SOFTWARE}")
    for part in show:
        part()
    path = report.write()
    print(f"\nresults: {shown(path)}")
    draw(path)
    if report.summary():
        raise Stop(report.summary())
    print("every row met its bar")
