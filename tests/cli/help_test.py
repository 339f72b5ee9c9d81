#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Man pages and completions have exactly the commands and options of ucx_gaudi --help."""

import re
import subprocess
import sys
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PAGES = ROOT / "docs" / "man"
COMPLETION = ROOT / "packaging" / "completion"
PROGRAM = sys.argv.pop()


def help_of(*words):
    return subprocess.run([PROGRAM, *words, "--help"], stdout=subprocess.PIPE, text=True, check=True).stdout


def options_in(text):
    return set(re.findall(r"^ +(?:-\w,)?(--[a-z-]+)", text, re.MULTILINE)) - {"--help"}


def short_options_in(text):
    return set(re.findall(r"^ +(-\w),--", text, re.MULTILINE)) - {"-h"}


def commands():
    return re.findall(r"^  ([a-z-]+) ", help_of().split("Commands:")[1], re.MULTILINE)


def page_of(command):
    return (PAGES / f"ucx_gaudi-{command}.1").read_text()


def complete_in_bash(*words):
    script = (f"source {COMPLETION}/ucx_gaudi; COMP_WORDS=(ucx_gaudi \"$@\"); COMP_CWORD=$#; "
              "_ucx_gaudi; echo ${COMPREPLY[@]}")
    found = subprocess.run(["bash", "-c", script, "bash", *words], stdout=subprocess.PIPE, text=True, check=True)
    return set(found.stdout.split())


def complete_in_zsh(*words):
    """What the function hands to zsh's own completion functions: the names of commands or the options."""
    script = ("_describe() { print -l -- ${${(P)2}%%:*} }; _arguments() { print -l -- $@ }; "
              f"words=(ucx_gaudi \"$@\"); CURRENT=$#words; source {COMPLETION}/_ucx_gaudi")
    found = subprocess.run(["zsh", "-f", "-c", script, "zsh", *words], stdout=subprocess.PIPE, text=True, check=True)
    lines = (re.sub(r"^\([^)]*\)", "", line) for line in found.stdout.splitlines())
    lines = (re.sub(r"^\*(?=-)", "", line) for line in lines)  # an option that may be repeated
    return {re.sub(r"\[.*", "", line) for line in lines if not line.startswith(("*", "1:"))}


class ManPages(unittest.TestCase):
    def test_overview_lists_and_refers_to_every_command(self):
        page = (PAGES / "ucx_gaudi.1").read_text()
        self.assertCountEqual(re.findall(r"^\.It Cm (.*)", page, re.MULTILINE), commands())
        referred = re.findall(r"^\.Xr ucx_gaudi-(\S+) 1", page.split(".Sh SEE ALSO")[1], re.MULTILINE)
        self.assertEqual(referred, sorted(commands()))

    def test_each_command_has_a_page_with_exactly_its_options(self):
        self.assertEqual({page.stem for page in PAGES.glob("ucx_gaudi-*.1")},
                         {f"ucx_gaudi-{command}" for command in commands()})
        for command in commands():
            with self.subTest(command=command):
                listed = re.findall(r"^\.It Fl (?:(\w) , )?-([a-z-]+)", page_of(command), re.MULTILINE)
                self.assertEqual({"--" + name for _, name in listed}, options_in(help_of(command)))
                self.assertEqual({"-" + letter for letter, _ in listed if letter}, short_options_in(help_of(command)))

    def test_each_page_has_a_title_exit_codes_and_examples(self):
        for command in commands():
            with self.subTest(command=command):
                page = page_of(command)
                self.assertIn(f"\n.Dt UCX_GAUDI-{command.upper()} 1\n", page)
                self.assertIn(f"\n.Nm ucx_gaudi-{command}\n", page)
                for section in ["SYNOPSIS", "DESCRIPTION", "EXIT STATUS", "EXAMPLES", "SEE ALSO"]:
                    self.assertIn(f"\n.Sh {section}\n", page)

    def test_mandoc_finds_no_mistake(self):
        pages = sorted(PAGES.glob("*.1"))
        found = subprocess.run(["mandoc", "-Tlint", "-Wwarning", *pages], capture_output=True, text=True, check=False)
        self.assertEqual((found.stdout + found.stderr, found.returncode), ("", 0))


class Completion(unittest.TestCase):
    def test_bash_offers_every_command_and_option(self):
        self.assertEqual(complete_in_bash(""), {*commands(), "--help", "--version"})
        for command in commands():
            self.assertEqual(complete_in_bash(command, "--") - {"--", "--help"}, options_in(help_of(command)), command)
        self.assertEqual(complete_in_bash("run", "--model", "gaudi"), {"gaudi2", "gaudi3"})
        self.assertIn("bash", complete_in_bash("run", "--", "bas"))

    def test_zsh_offers_every_command_and_option(self):
        self.assertEqual(complete_in_zsh(""), {*commands(), "-h", "--help", "--version"})
        for command in commands():
            text = help_of(command)
            self.assertEqual(complete_in_zsh(command, "--") - {"-h", "--help"},
                             options_in(text) | short_options_in(text), command)


class Documentation(unittest.TestCase):
    def test_variables_of_run_are_described(self):
        run = [PROGRAM, "run", "-v", "--cards", "1", "--model", "gaudi2", "--pace", "down:25", "--faults", "open=EIO",
               "--quirks", "posted", "--hca", "1", "--", "true"]
        found = subprocess.run(run, stderr=subprocess.PIPE, text=True, check=True).stderr
        names = set(re.findall(r"^([A-Z_a-z]+)=", found, re.MULTILINE))
        self.assertGreater(len(names), 10)
        section = (ROOT / "docs" / "softgaudi.md").read_text().split("## ucx_gaudi run")[1].split("\n## ")[0]
        self.assertEqual(names - set(re.findall(r"`([A-Za-z_]+)`", section)), set())


if __name__ == "__main__":
    unittest.main()
