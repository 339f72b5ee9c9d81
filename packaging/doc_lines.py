# SPDX-License-Identifier: BSD-3-Clause
"""The command lines of a section of the documentation, so that tests run what users read.

Commands stand in indented blocks; what a command prints stands between fences (```), or not at all.
"""

import re

HEADING = re.compile(r"(#+) +(.+)")


def read_section(file, heading):
    """The lines below the heading, up to the next one of its level or above."""
    level, fenced, lines = None, False, []
    for line in file.read_text(encoding="utf-8").splitlines():
        fenced ^= line.startswith("```")
        found = None if fenced else HEADING.fullmatch(line)
        if found and level and len(found[1]) <= level:
            break
        if level:
            lines.append(line)
        elif found and found[2] == heading:
            level = len(found[1])
    if not level:
        raise ValueError(f"{file} has no heading '{heading}'")
    return lines


def read_commands(file, heading):
    """The commands of the section in their order, each with its continuation lines, as printed but for the indent."""
    commands, fenced, in_block, continues = [], False, True, False
    for line in read_section(file, heading):
        fenced ^= line.startswith("```")
        in_block = not fenced and (not line or in_block and line.startswith("    "))
        if not line or not in_block:
            continue
        if continues:
            commands[-1] += "\n" + line[4:]
        else:
            commands.append(line[4:])
        continues = line.endswith("\\")
    if not commands:
        raise ValueError(f"{file} has no commands below '{heading}'")
    return commands


def as_script(commands):
    """One program for bash: `.` and `cd` of one command hold for the next ones, and the first that fails ends it."""
    return "set -x\n" + "".join(f"{command}\n[ $? = 0 ] || exit 1\n" for command in commands)
