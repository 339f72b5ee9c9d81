#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""The messages of the product: lists them from the source, and compares them with docs/messages.md.

A message is a string literal of at least two words (between blanks) that is not in one of the places below, where
literals serve another purpose. Placeholders of fmt and printf, and concatenated values, become an ellipsis.
"""

import argparse
import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PLACEHOLDER = "…"

# Files whose text is no message to a user.
OTHER_FILES = {
    "cli/verify/register.cpp": "the register of assumptions, in docs/assumptions.md",
    "cli/verify/summary.cpp": "the table of `ucx_gaudi verify`",
    "cli/verify/findings.cpp": "the same",
    **{f"cli/verify/step_{step}.cpp": "what `ucx_gaudi verify` did and saw"
       for step in ("copies", "descriptors", "export", "host", "import", "machine", "memory", "nic", "open", "soak", "synapse",
                    "window")},
    "cli/verify/rdma_loopback.cpp": "the same",
    "cli/verify/bench.cpp": "the same",
    **{f"cli/doctor/checks_{group}.cpp": "sentences of `ucx_gaudi doctor`, in docs/doctor.md by their ids"
       for group in ("card", "kernel", "limit", "nic", "path", "setting", "ucx")},
    **{f"cli/doctor/{part}.cpp": "parts of these sentences"
       for part in ("collect_nics", "collect_pci", "collect_settings", "collect_ucx", "nic_reasons", "round_trip")},
    "cli/info/abilities.cpp": "what `ucx_gaudi info` says of cards",
    "cli/info/info_text.cpp": "the lines of `ucx_gaudi info`",
    **{f"cli/explain/{part}.cpp": "the answer of `ucx_gaudi explain`" for part in ("cause", "explanation", "format_text")},
    "cli/doctor/check.cpp": "the names of verdicts",
    **{f"cli/topo/{part}.cpp": "what `ucx_gaudi topo` shows"
       for part in ("choose_nics", "compare_distances", "draw_svg", "topo_text")},
    "cli/doctor/collect.cpp": "parts of what `ucx_gaudi topo` shows",
    "cli/doctor/ucx_view.cpp": "parts of what `ucx_gaudi topo` shows",
    "cli/verbs.cpp": "parts of sentences of `ucx_gaudi doctor` and `verify`",
    "cli/bench/plot.cpp": "the picture of `ucx_gaudi bench --plot`",
    "cli/bench/table.cpp": "the tables of `ucx_gaudi bench`",
    "cli/top/http_answer.cpp": "answers of `ucx_gaudi metrics --listen`, in the words of HTTP",
    "cli/top/snapshot_metrics.cpp": "the metrics, in docs/metrics.md by their names",
    "os/lock_rank.h": "aborts of debug builds, for developers",
    "uct/config.cpp": "descriptions of settings, which `ucx_info -f` prints",
}

# Calls and initialisers whose arguments are no messages.
OTHER_CALLS = {
    "static_assert",
    # command line: help texts and titles
    "add_option", "add_flag", "add_subcommand", "add_enable", "footer", "app", "set_version_flag",
    "print_title",
    # names in UCX: settings, allocations
    "config_entry", "GAUDI_UCX_PARSER", "allocate",
    # arguments of a failed call, which stand in parentheses behind its name
    "from_negative", "from_zero", "from_minus_one", "from_mixed", "failure", "outcome",
    # data
    "output_of", "popen", "find_first_not_of", "join", "write", "write_once",
}

# Literals that are parts of lines without being messages: names of states and columns, values.
OTHER_TEXTS = {
    "an unknown file",           # stands for the path of a library
    "in creation",               # ucx_gaudi info: states of a card
    "in reset after release",
    "in reset",
    "needs reset",
    "one of … cards",            # the object of a wait
    "remote key",                # the call of an error
    "import sys; print(*sys.path[1:], sep='\\n')",  # a program for python3
    "ucx-gaudi verification record 1",  # the format of a file
    "… ok, … warnings, … failed, … skipped…",  # the last line of `ucx_gaudi doctor`
    "; SOFTWARE: the cards are those of softgaudi, not hardware",
    "…/s direct, …/s staged",    # ucx_gaudi top
    "ucx_gaudi top: every second; q ends it",
    ", SOFTWARE: cards of softgaudi, not hardware",  # UCX_GAUDI_STATS
    "card direct MiB staged MiB exported MiB copies submissions hits misses deferred errors",
    "timed out",                 # ucx_gaudi replay: the status of a wait
    "usage: ucx_gaudi COMMAND [OPTIONS]",  # the first line of the help
    "usage: ucx_gaudi … [OPTIONS]…",
    "-- COMMAND [ARGS]",
    "ucx_gaudi run -- ucx_info -d",  # examples within an error
    "ucx_gaudi record -o FILE -- ucx_info -d",
    "the UCX of …",              # the name of a UCX
    "descriptor …, … bytes",     # arguments of a failed call
    "the wheel …",               # ucx_gaudi plugin-path: the owner of a UCX
    "the Open MPI of …",
    "model name",                # a key in /proc/cpuinfo
    "ucx_gaudi bench",           # the name of the tool in its JSON
    "too noisy to tell",         # ucx_gaudi bench --compare: a verdict
    "softgaudi's virtual clock",  # the same: what was measured on
    "host memory to a card",     # ucx_gaudi bench --list: descriptions of tests
    "a card to host memory",
    "host memory to a card and back, both at once",
    "within a card",
    "a card to another",
    "between two cards, both directions at once",
    "host memory to all cards at once",
    "all cards to host memory at once",
    "host memory to all cards and back, all at once",
    "host memory to a card by an RDMA NIC",
    "a card to host memory by an RDMA NIC",
    "a card to another by an RDMA NIC",
    "card … … card …",           # ucx_gaudi bench: routes
    "within card …",
    "host and …",
    "… to host",
    "host to …",
}

TOKEN = re.compile(
    r'//[^\n]*|/\*.*?\*/'                               # comments
    r'|R"(?P<mark>[^(\s]*)\(.*?\)(?P=mark)"'            # raw strings
    r'|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])+\''      # strings and characters
    r'|^[ \t]*\#[ \t]*(?:include|error|pragma)[^\n]*'   # lines without code
    r'|[A-Za-z_]\w*|\d(?:\'?\w)*|\\\n|\s+|.', re.S | re.M)
FMT = re.compile(r'\{\{|\}\}|\{[^{}]*\}')
PRINTF = re.compile(r'%%|%[-+ #0]*[\d*]*(?:\.[\d*]+)?(?:hh|h|ll|l|z|j|t)?[diouxXcsfgp]')
ESCAPE = {"n": " ", "t": " ", '"': '"', "\\": "\\", "'": "'"}
WORD = re.compile(r"\S*[A-Za-z]{2}\S*")


class Message:
    def __init__(self, text, place, level=None):
        self.text = text
        self.place = place    # file:line of its first use
        self.levels = set()   # of the log lines with this text
        if level:
            self.levels.add(level)


def tokens(source):
    """(token, line) without comments, blanks and preprocessor lines that hold no code."""
    found, line = [], 1
    for match in TOKEN.finditer(source):
        text = match.group()
        directive = text != "#" and text.lstrip().startswith("#")
        if not directive and not text.isspace() and not text.startswith(("//", "/*", "\\\n")):
            found.append((text, line))
        line += text.count("\n")
    return found


def is_literal(token):
    return token.startswith(('"', 'R"'))


def content(literal):
    if literal.startswith("R"):
        return literal[literal.index("(") + 1:literal.rindex(")")]
    return re.sub(r"\\(.)", lambda match: ESCAPE.get(match.group(1), match.group()), literal[1:-1])


def normalise(text, printf=False):
    """Placeholders as an ellipsis; the same for adjacent ones, so that `{}{}` is one."""
    if printf:
        text = PRINTF.sub(lambda match: "%" if match.group() == "%%" else PLACEHOLDER, text)
    else:
        text = FMT.sub(lambda match: match.group()[0] if match.group() in ("{{", "}}") else PLACEHOLDER, text)
    text = re.sub(f"{PLACEHOLDER}{{2,}}", PLACEHOLDER, text)
    return " ".join(text.split())


def join_literals(found, at):
    """The literal that begins at `at` with all that the compiler or a `+` joins to it, and the position behind it."""
    text, end = PLACEHOLDER if found[at - 1][0] == "+" else "", at
    while end < len(found):
        token = found[end][0]
        if is_literal(token):
            text += content(token)
            end += 1
        elif token == "#":               # a macro's argument as a string
            text += PLACEHOLDER
            end += 2
        elif re.match(r"[A-Z][A-Z0-9_]+$", token) and end > at:  # a macro that stands for a string
            text += PLACEHOLDER
            end += 1
        else:
            break
    if end < len(found) and found[end][0] == "+":
        text += PLACEHOLDER
    return text, end


def messages_of(source, name):
    """The messages of one file, in their order."""
    found = tokens(source)
    calls = []  # the names before the open brackets, with the position of each bracket
    at = 0
    while at < len(found):
        token, line = found[at]
        if token in ("(", "{", "["):
            calls.append((name_before(found, at), at))
        elif token in (")", "}", "]"):
            if calls:
                calls.pop()
        elif is_literal(token):
            text, end = join_literals(found, at)
            names = [call for call, _ in calls if call != "format"]
            log = next((begin for call, begin in calls if call == "GAUDI_UCX_LOG"), None)
            text = normalise(text, printf=log is not None or "fprintf" in names)
            if len(WORD.findall(text)) >= 2 and not OTHER_CALLS.intersection(names[-1:]) and not is_rank(found, at):
                yield Message(text, f"{name}:{line}", level_of(found, log))
            at = end
            continue
        at += 1


def name_before(found, bracket):
    """The name that is called at an open bracket: f(, f{, and f<T>( as well."""
    at, depth = bracket - 1, 0
    if at >= 0 and found[at][0] == ">":
        while at >= 0:
            depth += (found[at][0] == ">") - (found[at][0] == "<")
            at -= 1
            if depth == 0:
                break
    return found[at][0] if at >= 0 else ""


def is_rank(found, at):
    """Whether the literal is the name of a lock: LockRank kName{105, "name"}."""
    return at >= 6 and found[at - 5][0] == "LockRank" and found[at - 3][0] == "{"


def level_of(found, begin):
    """The level of a log line: what stands between the first two commas of the call."""
    if begin is None:
        return None
    depth, commas = 0, []
    for at in range(begin, len(found)):
        token = found[at][0]
        depth += (token in "([{") - (token in ")]}")
        if token == "," and depth == 1:
            commas.append(at)
        if len(commas) == 2 or depth == 0:
            break
    return found[commas[0] + 1][0].lower() if commas else None


def messages_in(directory):
    """All messages below a directory, by their text."""
    all_of_them, others = {}, set()
    for path in sorted(directory.rglob("*")):
        name = path.relative_to(directory).as_posix()
        if path.suffix not in (".h", ".c", ".cpp") or name in OTHER_FILES:
            continue
        for message in messages_of(path.read_text(encoding="utf-8"), f"{directory.name}/{name}"):
            if message.text in OTHER_TEXTS:
                others.add(message.text)
                continue
            known = all_of_them.setdefault(message.text, message)
            known.levels |= message.levels
    return all_of_them, others


class Row:
    def __init__(self, text, levels, place):
        self.text = text
        self.levels = levels
        self.place = place


# | `message` | when it comes | what to do |; a message with backticks has two on each side.
ROW = re.compile(r"\| (?:`` (?P<double>.+?) ``|`(?P<single>[^`]+)`) \| (?P<when>[^|]+) \| (?P<advice>[^|]+) \|$")
LEVELS = re.compile(r"log ((?:`[a-z]+`(?:, )?)+):")


def rows_of(page, name):
    """The rows of the page's tables whose first cell is code. A log line has its level in the second: log `warn`:"""
    rows = []
    for number, line in enumerate(page.splitlines(), 1):
        if match := ROW.match(line):
            levels = LEVELS.match(match["when"])
            rows.append(Row(match["double"] or match["single"], set(re.findall(r"[a-z]+", levels[1] if levels else "")),
                            f"{name}:{number}"))
    return rows


def differences(messages, rows):
    """One sentence for each message without a row, each row without a message, and each wrong log level."""
    known = {}
    for row in rows:
        if row.text in known:
            yield f"{row.place}: the row of '{row.text}' repeats that of {known[row.text].place}: remove one"
        known.setdefault(row.text, row)
    for text, message in messages.items():
        row = known.get(text)
        if row is None:
            yield f"{message.place}: '{text}' has no row in docs/messages.md: add one"
        elif row.levels != message.levels:
            levels = ", ".join(f"`{level}`" for level in sorted(message.levels))
            yield f"{row.place}: the second cell of '{text}' must " + (
                f"begin with 'log {levels}:'" if levels else "name no log level")
    for text, row in known.items():
        if text not in messages:
            yield f"{row.place}: no code has the message '{text}': correct or remove the row"


def main():
    parser = argparse.ArgumentParser(description="Compares the messages in the source with docs/messages.md.")
    parser.add_argument("--source", type=Path, default=ROOT / "src", help="the directory of the source")
    parser.add_argument("--page", type=Path, default=ROOT / "docs" / "messages.md", help="the page with the tables")
    parser.add_argument("--list", action="store_true", help="print the messages and their places, and compare nothing")
    options = parser.parse_args()
    sys.stdout.reconfigure(encoding="utf-8")  # the ellipsis, in any locale

    messages, others = messages_in(options.source)
    if options.list:
        for text, message in messages.items():
            print(f"{message.place}: {','.join(sorted(message.levels)) or '-'}: {text}")
        return 0
    name = options.page.relative_to(ROOT).as_posix() if ROOT in options.page.parents else options.page.name
    found = list(differences(messages, rows_of(options.page.read_text(encoding="utf-8"), name)))
    if options.source == ROOT / "src":
        found += [f"tools/messages.py: no code has '{text}' any more: remove it from OTHER_TEXTS"
                  for text in sorted(OTHER_TEXTS - others)]
    for sentence in found:
        print(sentence)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
