#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""The register of assumptions: compares the table in docs/assumptions.md with src/cli/verify/register.cpp, or writes it."""

import argparse
import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
HEAD = "| id | assumption | source | how it is tested | if it is false |\n|---|---|---|---|---|\n"
STRING = re.compile(r'"((?:\\.|[^"\\])*)"')
NOT_TESTABLE = "*not testable*"


def rows_of(source):
    """The rows of the register: five strings each; neighbouring literals are one string."""
    rows = []
    for body in re.findall(r"\bAssumption\{(.*?)\},\n", source, re.S):
        joined = re.sub(r'"\s*\n\s*"', "", body)  # a literal that is continued on the next line
        rows.append([text.replace('\\"', '"').replace("\\\\", "\\") for text in STRING.findall(joined)])
    return rows


def steps_in(directory):
    """The steps that the code reports, with the ids that each names."""
    steps = {}
    for path in sorted(directory.glob("step_*.cpp")):
        source = path.read_text(encoding="utf-8")
        name = re.search(r'constexpr const char \*kStep = "([a-z0-9_]+)";', source)
        if name:
            steps.setdefault(name[1], set()).update(re.findall(r'"(A\d+)"', source))
    return steps


def problems(rows, steps):
    """One sentence for each assumption without a test and each step without an assumption."""
    known = [row[0] for row in rows]
    for row in rows:
        if len(row) != 5:
            yield f"{row[0]}: has {len(row)} columns, not 5"
            continue
        named = set(re.findall(r"step `([a-z0-9_]+)`", row[3]))
        if not named and "self-test" not in row[3] and not row[3].startswith(NOT_TESTABLE):
            yield f"{row[0]}: names no step, no self-test and not the words {NOT_TESTABLE}"
        for name in sorted(named):
            if row[0] not in steps.get(name, set()):
                yield f"{row[0]}: step `{name}` does not name it"
    for identifier in sorted({one for one in known if known.count(one) > 1}):
        yield f"{identifier}: is there twice"
    for name, identifiers in steps.items():
        if not identifiers:
            yield f"step `{name}` names no assumption"
        for identifier in sorted(identifiers - set(known)):
            yield f"step `{name}` names {identifier}, which is no assumption"


def table_of(rows):
    return HEAD + "".join("| " + " | ".join(row) + " |\n" for row in rows)


def main(words=None):
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--write", action="store_true", help="write the table into the page")
    parser.add_argument("--page", type=Path, default=ROOT / "docs" / "assumptions.md")
    parser.add_argument("--source", type=Path, default=ROOT / "src" / "cli" / "verify")
    options = parser.parse_args(words)
    rows = rows_of((options.source / "register.cpp").read_text(encoding="utf-8"))
    found = list(problems(rows, steps_in(options.source)))
    page = options.page.read_text(encoding="utf-8")
    wanted = re.sub(r"\| id \|.*?\n(?=\n|\Z)", lambda _: table_of(rows), page, count=1, flags=re.S)
    if options.write:
        options.page.write_text(wanted, encoding="utf-8")
    elif page != wanted:
        found.append("docs/assumptions.md differs from src/cli/verify/register.cpp: change the register, and run "
                     "tools/assumptions.py --write")
    print("\n".join(found) if found else f"{len(rows)} assumptions, each with a test or a reason why there is none")
    return 1 if found or not rows else 0


if __name__ == "__main__":
    sys.exit(main())
