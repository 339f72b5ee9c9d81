# SPDX-License-Identifier: BSD-3-Clause
"""Shared by the benchmarks: figures computed from samples, the report, and the runner of their programs."""

import json
import os
import statistics
import subprocess

from steps import BUILD, ROOT, Stop, counted, shown, step, tail

RESULTS = BUILD / "bench"
SOFTWARE = "measured in software (softgaudi, softhca): no Gaudi card and no NIC was involved"
# The card takes no time, so what is measured is the caller. Only the first copies are made, for the self-test.
NO_TIME = {"SOFTGAUDI_PACE": "null:8"}


def size_text(size):
    for unit, name in ((1 << 20, "MiB"), (1 << 10, "KiB")):
        if size >= unit:
            return f"{size // unit} {name}"
    return f"{size} B"


# What a figure says about its bar.
MET, MISSED, TOO_NOISY = "met", "MISSED", "too noisy to tell"


def judge(lowest, highest, at_least=None, at_most=None):
    """A figure that the noise leaves anywhere between the two, against its bar: met or missed only if all of the range
    is on one side of the bar."""
    if at_least is not None:
        return MET if lowest >= at_least else MISSED if highest < at_least else TOO_NOISY
    return MET if highest <= at_most else MISSED if lowest > at_most else TOO_NOISY


def quartiles(values):
    return statistics.quantiles(values, n=4, method="inclusive")


class Compared:
    """Two things measured in turns, as one figure per round. The noise is base against base, from the same rounds."""

    def __init__(self, sample, figure, neutral):
        base = sample["base_ns"]
        self.neutral = neutral
        self.low, self.median, self.high = quartiles([figure(a, b) for a, b in zip(base, sample["other_ns"])])
        self.noise_low, _, self.noise_high = quartiles([figure(a, b) for a, b in zip(base, sample["base_again_ns"])])
        self.spread = max(neutral - self.noise_low, self.noise_high - neutral, 0)

    def reach(self):
        """What the noise of the base and the figure's own leave open."""
        return min(self.low, self.median - self.spread), max(self.high, self.median + self.spread)

    def says(self):
        """For a row without a bar: what it says beyond its noise."""
        return TOO_NOISY if self.spread > abs(self.median - self.neutral) else ""

    def at_least(self, bar):
        return judge(*self.reach(), at_least=bar)

    def at_most(self, bar):
        return judge(*self.reach(), at_most=bar)

    def json(self, name, unit=""):
        return {f"{name}{unit}_median": self.median, f"{name}{unit}_quartiles": [self.low, self.high],
                f"noise{unit}_quartiles": [self.noise_low, self.noise_high]}


class Ratio(Compared):
    """The bandwidth of the other, in that of the base."""

    def __init__(self, sample):
        super().__init__(sample, lambda base, other: base / other, 1)


class Factor(Compared):
    """The time of the other, in that of the base."""

    def __init__(self, sample):
        super().__init__(sample, lambda base, other: other / base, 1)


class Added(Compared):
    """The time of the other beyond that of the base, in nanoseconds."""

    def __init__(self, sample):
        super().__init__(sample, lambda base, other: other - base, 0)


class Report:
    """The results: lines for readers, rows for programs."""

    def __init__(self):
        self.results = {"schema": 4, "software": True, "note": SOFTWARE}
        self.missed, self.too_noisy = [], []

    def head(self, title, columns=""):
        print(f"\n{title}\n{columns}" if columns else f"\n{title}")

    def verdict(self, verdict, what):
        if verdict != MET:
            (self.missed if verdict == MISSED else self.too_noisy).append(what)
        return verdict

    def summary(self):
        """The rows that did not meet their bar; empty if all did."""
        parts = ((self.missed, "missed their bar"), (self.too_noisy, "are too noisy to tell"))
        return "\n".join(f"{len(rows)} rows {what}" + "".join(f"\n  {row}" for row in rows)
                         for rows, what in parts if rows)

    def add(self, name, rows):
        self.results[name] = rows

    def write(self):
        RESULTS.mkdir(parents=True, exist_ok=True)
        path = RESULTS / "bench.json"
        path.write_text(json.dumps(self.results, indent=1) + "\n")
        return path


class Runner:
    """Runs benchmark programs inside `ucx_gaudi run`."""

    def __init__(self, directory, ucx):
        self.directory = directory
        self.ucx = ucx

    def program(self, name):
        path = self.directory / "bin" / name
        if not path.exists():
            raise Stop(f"{shown(path)} was not built: this UCX has no headers.")
        return str(path)

    def command(self, words, options=(), ucx=None, variables=()):
        """`variables` are set inside, over those that `ucx_gaudi run` sets."""
        return [self.program("ucx_gaudi"), "run", "--ucx", self.ucx or ucx or "rapids", *options, "--",
                *(["env", *variables] if variables else []), self.program(words[0]), *words[1:]]

    def start(self, title, words, options=(), env=None, ucx=None, variables=()):
        """Returns the log of the program."""
        _, log = step(title, self.command(words, options, ucx, variables), "bench-" + title.replace(" ", "-"), env=env)
        return log

    def run(self, title, words, options=(), env=None, ucx=None, variables=()):
        """Returns the JSON that the program prints."""
        log = self.start(title, words, options, env, ucx, variables)
        return self.result(log.read_text(errors="replace"), words[0], lambda: tail(log, 20))

    def turns(self, title, rounds, base, other, env=None):
        """Two commands that cannot share a process, each of which prints the time it took: in turns, as interleave() in
        bench/samples.h does it. Returns samples."""
        sample = {"base_ns": [], "other_ns": [], "base_again_ns": []}
        commands = {"base_ns": base, "other_ns": other, "base_again_ns": base}
        names = list(commands)
        last = {}
        for turn in counted(title, 3 * rounds):
            name = names[(turn + turn // 3) % 3]  # the order changes from round to round
            done = subprocess.run(commands[name], cwd=ROOT, env={**os.environ, **(env or {})}, stdin=subprocess.DEVNULL,
                                  stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
            said = "\n".join(done.stdout.splitlines()[-20:])
            if done.returncode != 0:
                raise Stop(f"{said}\n\n'{title}' failed.")
            last[name] = self.result(done.stdout, title, lambda: said)
            sample[name].append(last[name]["ns"])
        return {**sample, "base": last["base_ns"], "other": last["other_ns"]}

    @staticmethod
    def result(text, name, said):
        lines = [line for line in text.splitlines() if line.startswith("{")]
        if not lines:
            raise Stop(f"{said()}\n\n{name} printed no result.")
        return json.loads(lines[-1])
