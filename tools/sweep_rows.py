# SPDX-License-Identifier: BSD-3-Clause
"""Rows of ./ucx-gaudi bench from bench_sweep: UCX's choice of a protocol against each one forced, at each size."""

import statistics

from measure import MET, MISSED, TOO_NOISY, size_text

# What gaudi_cpy advertises to UCX (UCX_GAUDI_CPY_BW, _LATENCY), as the pace of the cards. UCX_GAUDI_CPY_OVERHEAD is time of
# the processor, which no pace adds.
ADVERTISED = "down:24,up:24,card:400,submit:6,map:20"
VIRTUAL = {"SOFTGAUDI_PACE": f"virtual:{ADVERTISED}", "SOFTHCA_PACE": "virtual:link:25,latency:2"}
WALL = {"SOFTGAUDI_PACE": ADVERTISED}
BEHIND = 0.1


def judge_size(samples):
    """From {protocol: nanoseconds of each round} with the choice twice: the fastest protocol, how far the choice is behind it,
    the noise, and what follows. The fastest round counts, since others of the machine only add time; where the median
    round is further from it than the bar, they added too much to tell."""
    fastest = {name: min(rounds) for name, rounds in samples.items()}
    best = min((name for name in samples if not name.startswith("choice")), key=fastest.get)
    twice = fastest["choice"], fastest["choice again"]
    noise = max(max(twice) / min(twice),
                *(statistics.median(samples[name]) / fastest[name] for name in ("choice", "choice again", best))) - 1
    behind = max(0.0, min(twice) / fastest[best] - 1)
    verdict = TOO_NOISY if noise > BEHIND else MET if behind <= BEHIND else MISSED
    return best, behind, noise, verdict


def group_by_size(data):
    """{size: {protocol: nanoseconds of each round}}"""
    sizes = {}
    for row in data["rows"]:
        sizes.setdefault(row["size_bytes"], {})[row["protocol"]] = row["ns"]
    return sizes


def sweep(report, sweeps):
    report.head("UCX's choice of a protocol for a message against the fastest that can be forced, cards paced as advertised:\n"
                f"at most {BEHIND:.0%} behind. RDMA on the virtual clock; shared memory and tcp, which take no time there, by\n"
                "the wall clock, fastest of the rounds",
                f"  {'path':<26} {'size':>8}  {'choice':>12}  {'fastest':>12}  {'which':<16} {'behind':>6}  {'noise':>6}")
    rows = []
    for path, data in sweeps.items():
        for size, samples in group_by_size(data).items():
            best, behind, noise, verdict = judge_size(samples)
            times = {name: min(rounds) for name, rounds in samples.items()}
            if path.startswith("host"):  # the limit in the picture: nothing of ours is in UCX's choice
                verdict = ""
            else:
                report.verdict(verdict, f"choice of a protocol, {path}, {size_text(size)}")
            choice = min(times["choice"], times["choice again"])
            print(f"  {path:<26} {size_text(size):>8}  {choice / 1000:>9.1f} us  {times[best] / 1000:>9.1f} us  {best:<16} "
                  f"{behind:>6.0%}  {noise:>6.0%}  {verdict}".rstrip())
            rows.append({"path": path, "size_bytes": size, "protocols_ns": times, "fastest": best, "behind": behind,
                         "noise": noise, **({"bar": BEHIND, "verdict": verdict} if verdict else {})})
    report.add("protocol_sweep", rows)


def measure_sweep(report, runner, quick, has_ib):
    largest = str((1 if quick else 64) << 20)
    rounds = "3" if quick else "11"
    sweeps = {}
    if has_ib:
        devices = ["--cards", "2", "--hca", "2"]
        for path, types, variables in (("gaudi to gaudi, zero copy", ["gaudi", "gaudi"], []),
                                       ("gaudi to gaudi, staged", ["gaudi", "gaudi"], ["UCX_IB_GPU_DIRECT_RDMA=n"]),
                                       ("host to host, RDMA", ["host", "host"], [])):
            words = ["bench_sweep", "virtual", "rc_v,gaudi_cpy", *types, "3", largest]
            sweeps[path] = runner.run(f"sweep {path}", words, devices, env=VIRTUAL, ucx="nixl-1.23", variables=variables)
    for transport in ("sm", "tcp"):
        for types in (["gaudi", "gaudi"], ["host", "host"]):
            path = f"{types[0]} to {types[1]}, {transport}"
            words = ["bench_sweep", "wall", f"{transport},gaudi_cpy", *types, rounds, largest]
            sweeps[path] = runner.run(f"sweep {path}", words, ["--cards", "2"], env=WALL, ucx="nixl-1.23")
    return lambda: sweep(report, sweeps)
