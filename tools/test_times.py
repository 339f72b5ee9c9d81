# SPDX-License-Identifier: BSD-3-Clause
"""What the tests cost: each group, and the programs that take most."""

import collections
import re


def row(name, count, spent):
    return f"    {name:<28}{count:>6} tests {spent:>8.1f} s"


def group_rows(log):
    """ctest ends its output with the time of each label; in its report there are no labels."""
    found = re.findall(r"^(\S+) += +([\d.]+) sec\*proc \((\d+) tests?\)$", log, re.MULTILINE)
    ranked = sorted(((name, int(count), float(spent)) for name, spent, count in found), key=lambda group: -group[2])
    return [row(*group) for group in ranked]


def program_rows(cases, most):
    programs = collections.defaultdict(list)
    for case in cases:
        programs[case.get("name").split("/")[0]].append(float(case.get("time")))
    ranked = sorted(programs.items(), key=lambda program: -sum(program[1]))
    return [row(name, len(spent), sum(spent)) for name, spent in ranked[:most]]


def table(cases, log):
    """A text with the tables, from the cases of ctest's report and its output."""
    total = sum(float(case.get("time")) for case in cases)
    return "\n".join(["  groups (a test can be in several; a test that keeps two cores busy counts twice):",
                      *group_rows(log), "  the programs that take most:", *program_rows(cases, 10),
                      row("all", len(cases), total)])
