# SPDX-License-Identifier: BSD-3-Clause
"""./ucx-gaudi bench: runs the benchmarks, prints their table, writes it as JSON."""

import json
import statistics
from pathlib import Path

from steps import BUILD, Stop, shown, step, tail

RESULTS = BUILD / "bench"
SOFTWARE = "measured in software (softgaudi, softhca): no Gaudi card and no NIC was involved"

# As on a Gaudi2 server: PCIe gen 4 x16 per card, 200 Gb/s per HCA; microseconds per submission, mapping and message.
SERVER = {"SOFTGAUDI_PACE": "virtual:down:25,up:25,card:1000,submit:5,map:20",
          "SOFTHCA_PACE": "virtual:link:25,latency:2"}


def size_text(size):
    for unit, name in ((1 << 20, "MiB"), (1 << 10, "KiB")):
        if size >= unit:
            return f"{size // unit} {name}"
    return f"{size} B"


def quartiles(values):
    return statistics.quantiles(values, n=4, method="inclusive")


class Ratio:
    """Of two things measured in turns. Base against base, measured in the same rounds, shows the noise."""

    def __init__(self, sample):
        base = sample["base_ns"]
        self.low, self.median, self.high = quartiles([a / b for a, b in zip(base, sample["other_ns"])])
        self.noise_low, _, self.noise_high = quartiles([a / b for a, b in zip(base, sample["base_again_ns"])])
        self.spread = max(1 - self.noise_low, self.noise_high - 1, 0)

    def meets(self, bar):
        return self.median + self.spread >= bar

    def json(self):
        return {"ratio_median": self.median, "ratio_quartiles": [self.low, self.high],
                "noise_quartiles": [self.noise_low, self.noise_high]}


class Report:
    """What was measured: lines for people, rows for programs."""

    def __init__(self):
        self.results = {"schema": 1, "software": True, "note": SOFTWARE}
        self.missed = []

    def head(self, title, columns=""):
        print(f"\n{title}\n{columns}" if columns else f"\n{title}")

    def verdict(self, met, what):
        if not met:
            self.missed.append(what)
        return "met" if met else "MISSED"

    def add(self, name, rows):
        self.results[name] = rows

    def write(self):
        RESULTS.mkdir(parents=True, exist_ok=True)
        path = RESULTS / "bench.json"
        path.write_text(json.dumps(self.results, indent=1) + "\n")
        return path


class Runner:
    """Runs a benchmark program inside `ucx_gaudi run` and returns the JSON it prints."""

    def __init__(self, directory, ucx):
        self.programs = directory / "bin"
        self.ucx = ucx

    def program(self, name):
        path = self.programs / name
        if not path.exists():
            raise Stop(f"{shown(path)} was not built: this UCX has no headers.")
        return str(path)

    def run(self, title, words, options=(), env=None, ucx=None):
        command = [self.program("ucx_gaudi"), "run", "--ucx", self.ucx or ucx or "rapids", *options, "--",
                   self.program(words[0]), *words[1:]]
        _, log = step(title, command, "bench-" + title.replace(" ", "-"), env=env)
        lines = [line for line in log.read_text(errors="replace").splitlines() if line.startswith("{")]
        if not lines:
            raise Stop(f"{tail(log, 20)}\n\n{words[0]} printed no result.")
        return json.loads(lines[-1])


# ---- zero copy over RDMA --------------------------------------------------------------------------------------------


def rdma_against_host(report, data):
    bar = 0.97
    report.head("Zero copy: UCP put from Gaudi to Gaudi memory over RDMA against the same from host to host memory",
                f"  {'size':>8}  {'bandwidth':>9}  {'quartiles':<15} {'noise':<15} bar")
    rows = []
    for sample in data["rows"]:
        ratio, size = Ratio(sample), sample["size_bytes"]
        verdict = report.verdict(ratio.meets(bar), f"RDMA put of {size_text(size)} against host memory")
        print(f"  {size_text(size):>8}  {ratio.median:>9.2f}  {ratio.low:.2f} to {ratio.high:.2f}    "
              f"{ratio.noise_low:.2f} to {ratio.noise_high:.2f}    {bar} {verdict}")
        rows.append({"size_bytes": size, "bar": bar, **ratio.json()})
    report.add("rdma_put_gaudi_over_host_bandwidth", rows)


def rdma_registrations(report, data):
    report.head("Registration of 1 MiB with UCX: the first use, and a hit in its cache",
                f"  {'memory':>8}  {'first use':>10}  {'hit':>8}")
    for kind, cost in data["registration"].items():
        first, hit = statistics.median(cost["first_us"]), statistics.median(cost["hit_us"])
        print(f"  {kind:>8}  {first:>7.1f} us  {hit:>5.2f} us")
        report.add(f"registration_{kind}", {"first_us_median": first, "hit_us_median": hit})


def rdma_against_staging(report, data):
    report.head("Zero copy against the way through host memory, on the virtual clock (PCIe gen 4 x16, 200 Gb/s per HCA)",
                f"  {'':<8} {'size':>8}  {'zero copy':>12}  {'staged':>12}  factor")
    for row in data["rows"]:
        zero, staged = row["zero_copy_virtual_ns"], row["staged_virtual_ns"]
        row["factor"] = staged / zero
        verdict = report.verdict(staged > zero, f"{row['what']} of {size_text(row['size_bytes'])} against staging")
        print(f"  {row['what']:<8} {size_text(row['size_bytes']):>8}  {zero / 1000:>9.1f} us  {staged / 1000:>9.1f} us  "
              f"{row['factor']:>6.1f} {verdict}")
    report.add("rdma_zero_copy_against_staging", data["rows"])


def measure_rdma(report, runner, rounds):
    devices = ["--cards", "2", "--hca", "2"]
    wall = runner.run("RDMA against host memory", ["bench_rdma", "wall", str(rounds)], devices, ucx="nixl-1.23")
    staged = runner.run("RDMA against staging", ["bench_rdma", "staged", runner.program("softgaudi_stat")], devices,
                        env=SERVER, ucx="nixl-1.23")
    return lambda: (rdma_against_host(report, wall), rdma_registrations(report, wall),
                    rdma_against_staging(report, staged))


def has_ib(ucx):
    return not ucx or bool(list(Path(ucx).glob("lib*/ucx/libuct_ib.so*")))


def bench(directory, ucx, quick):
    rounds = 5 if quick else 21
    report, runner = Report(), Runner(directory, ucx)
    show = []
    if has_ib(ucx):
        show.append(measure_rdma(report, runner, rounds))
    else:
        print("  this UCX has no ib module, so RDMA is not measured")
    print(f"\n{SOFTWARE}")
    for part in show:
        part()
    path = report.write()
    print(f"\n{len(report.missed)} rows missed their bar" + "".join(f"\n  {what}" for what in report.missed)
          if report.missed else "\nevery row met its bar")
    print(f"results: {shown(path)}")
