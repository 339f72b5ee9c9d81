# SPDX-License-Identifier: BSD-3-Clause
"""Rows of ./ucx-gaudi bench from bench_peer, which measures any two memory types through UCP alone."""

import os
import statistics

from measure import NO_TIME, Factor, Ratio, judge, quartiles, size_text

# The same rows of NVIDIA's cuda_copy on an H200 (UCX 1.22, 16 cores, one run): microseconds of processor time. Hardware
# beside software: a yardstick, not a race.
H200 = {"put": 3.4, "allocate": 56, "free": 51, "register": 44, "deregister": 32, "ucp_init": 760_000}
H200_RANGES = {4096: 4.2, 16384: 5.0}
# A card that takes no time moves the bytes of the first copies only, so only those are compared.
CHECKED = str(256 << 10)


def operations(report, data):
    report.head("Operations between host and Gaudi memory of 4 KiB through UCP, processor time each, on a card that takes no\n"
                "time itself",
                f"  {'':<12} {'median':>10}  {'quartiles':<22} H200")
    rows = []
    for row in data["rows"]:
        low, median, high = (value / 1000 for value in quartiles(row["processor_ns"]))
        print(f"  {row['what']:<12} {median:>7.2f} us  {f'{low:.2f} to {high:.2f}':<22} {H200[row['what']]} us")
        rows.append({**{key: value for key, value in row.items() if key != "processor_ns"},
                     "processor_us_median": median, "processor_us_quartiles": [low, high], "h200_us": H200[row["what"]]})
    report.add("peer_operations", rows)


def ranges(report, data):
    bar = 2
    report.head("Puts of 4 KiB in turn from many registered ranges, processor time each, against puts from one range",
                f"  {'ranges':>8}  {'':<22} {'one':>8}  {'many':>9}  {'factor':>6}  {'quartiles':<18} {'noise':<14} "
                f"{'bar':<22} H200")
    rows = []
    for row in data["rows"]:
        factor, count = Factor(row), row["ranges"]
        lie = "side by side" if row["pages_apart"] == 1 else "on every other page"
        verdict = report.verdict(factor.at_most(bar), f"puts from {count} ranges {lie}")
        one, many = (statistics.median(row[name]) / 1000 for name in ("base_ns", "other_ns"))
        anchor = f"{H200_RANGES[count]} us" if count in H200_RANGES else ""
        print(f"  {count:>8}  {lie:<22} {one:>5.2f} us  {many:>6.2f} us  {factor.median:>6.2f}  "
              f"{f'{factor.low:.2f} to {factor.high:.2f}':<18} "
              f"{f'{factor.noise_low:.2f} to {factor.noise_high:.2f}':<14} {f'{bar} {verdict}':<22} {anchor}".rstrip())
        rows.append({"ranges": count, "pages_apart": row["pages_apart"], "bar": bar, "one_us_median": one,
                     "many_us_median": many, **factor.json("factor")})
    report.add("peer_ranges", rows)


def thread_bars(threads, cores):
    """The bars for the rate against one thread, and for the slowest thread against the mean; none where the machine has
    too few cores for them."""
    if threads == 2 and cores >= 2:
        return 1, 0.8 if cores >= 16 else None
    if threads >= 16 and cores >= 16:
        return 1, 0.8
    return None, None


def threads_of(report, data, cores):
    report.head(f"Threads with a worker each, puts of 4 KiB to one card, on {cores} cores: rate against one thread, and the\n"
                "slowest thread against the mean",
                f"  {'threads':>7}  {'puts a second':>13}  {'rate':>5}  {'quartiles':<14} {'noise':<14} {'bar':<22} "
                f"{'slowest':>7}  {'quartiles':<14} bar")
    measured = data["rows"]
    one, again = measured[0], measured[-1]  # one thread twice: the noise
    rows = []
    for row in measured[:-1]:
        sample = {name: [1e9 / max(rate, 1) for rate in values["puts_per_s"]]
                  for name, values in (("base_ns", one), ("other_ns", row), ("base_again_ns", again))}
        ratio, count = Ratio(sample), row["threads"]
        low, slowest, high = quartiles(row["slowest_over_mean"])
        rate_bar, slowest_bar = thread_bars(count, cores)
        verdicts = [report.verdict(ratio.at_least(rate_bar), f"rate of {count} threads") if rate_bar else "",
                    report.verdict(judge(low, high, at_least=slowest_bar), f"slowest of {count} threads")
                    if slowest_bar else ""]
        rate = statistics.median(row["puts_per_s"])
        print(f"  {count:>7}  {rate / 1e6:>11.2f} M  {ratio.median:>5.2f}  {f'{ratio.low:.2f} to {ratio.high:.2f}':<14} "
              f"{f'{ratio.noise_low:.2f} to {ratio.noise_high:.2f}':<14} "
              f"{f'{rate_bar} {verdicts[0]}' if rate_bar else '':<22} {slowest:>7.2f}  {f'{low:.2f} to {high:.2f}':<14} "
              f"{f'{slowest_bar} {verdicts[1]}' if slowest_bar else ''}".rstrip())
        rows.append({"threads": count, "cores": cores, "puts_per_s_median": rate, **ratio.json("rate_over_one"),
                     "slowest_over_mean_median": slowest, "slowest_over_mean_quartiles": [low, high],
                     **({"bar": rate_bar} if rate_bar else {}), **({"slowest_bar": slowest_bar} if slowest_bar else {})})
    report.add("peer_threads", rows)


def transfers(report, pairs):
    size = pairs[0]["rows"][0]["size_bytes"]
    report.head(f"One transfer of {size_text(size)} between two processes without an RDMA NIC, against host to host memory. The\n"
                "card's copies are the model's own, so no row has a bar",
                f"  {'':<18} {'':<4} {'over':<18} {'host to host':>12}  {'this':>9}  {'factor':>6}  {'quartiles':<16} noise")
    rows = []
    for pair in pairs:
        for row in pair["rows"]:
            factor = Factor(row)
            host, this = (statistics.median(row[name]) / 1e6 for name in ("base_ns", "other_ns"))
            print(f"  {pair['from'] + ' to ' + pair['to']:<18} {row['what']:<4} {row['transports']:<18} {host:>9.1f} ms  "
                  f"{this:>6.1f} ms  {factor.median:>6.2f}  {f'{factor.low:.2f} to {factor.high:.2f}':<16} "
                  f"{factor.noise_low:.2f} to {factor.noise_high:.2f} {factor.says()}".rstrip())
            rows.append({"from": pair["from"], "to": pair["to"], "what": row["what"], "transports": row["transports"],
                         "size_bytes": size, "host_to_host_ms_median": host, "ms_median": this, **factor.json("factor")})
    report.add("peer_transfers", rows)


def measure_peer(report, runner, rounds, quick):
    words = ["bench_peer", "--json", "--rounds", str(rounds), "--count", "2048" if quick else "16384", "--check", CHECKED]
    first = runner.run("operations through UCP", [*words, "--parts", "put,allocate,register,init"], ["--cards", "1"],
                       env=NO_TIME)
    many = runner.run("many ranges", [*words, "--parts", "ranges"], ["--cards", "1"], env=NO_TIME)
    # One thread also comes last: base and base again, in turns with the others.
    threads = runner.run("many threads", [*words, "--parts", "threads", "--threads", "1,2,16,1", "--thread-ms",
                                          "20" if quick else "100"], ["--cards", "1"], env=NO_TIME)
    few = ["bench_peer", "--json", "--rounds", str(max(3, rounds // 4)), "--parts", "transfer", "--bytes",
           str((4 if quick else 64) << 20)]
    pairs = [runner.run(f"transfers {source} to {destination}", [*few, "--from", source, "--to", destination],
                        ["--cards", "2"])
             for source, destination in (("gaudi", "gaudi"), ("host", "gaudi"), ("gaudi", "host"))]
    cores = len(os.sched_getaffinity(0))
    return lambda: (operations(report, first), ranges(report, many), threads_of(report, threads, cores),
                    transfers(report, pairs))
