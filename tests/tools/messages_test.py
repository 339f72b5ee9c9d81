# SPDX-License-Identifier: BSD-3-Clause
"""tools/messages.py on made-up sources and pages."""

import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

TOOLS = Path(__file__).resolve().parents[2] / "tools"
sys.path.insert(0, str(TOOLS))
sys.dont_write_bytecode = True

import messages  # noqa: E402  (found through the line above)


def texts(source):
    return [message.text for message in messages.messages_of(source, "file.cpp")]


class Extraction(unittest.TestCase):
    def test_adjacent_literals_are_joined(self):
        self.assertEqual(texts('refuse(EINVAL, "the first half "\n    "and the second");'),
                         ["the first half and the second"])

    def test_fmt_placeholders_become_an_ellipsis(self):
        self.assertEqual(texts('os::format("{} bytes at {:#x} of {{card}} {}{}", a, b, c, d)'),
                         ["… bytes at … of {card} …"])

    def test_printf_placeholders_become_an_ellipsis_in_log_lines_only(self):
        self.assertEqual(texts('GAUDI_UCX_LOG(host, WARN, "card %u of %-8s is 5%% full", a, b);'),
                         ["card … of … is 5% full"])
        self.assertEqual(texts('refuse("the share is 5%s of it");'), ["the share is 5%s of it"])

    def test_macros_between_literals_become_an_ellipsis(self):
        self.assertEqual(texts('Error{ENOSYS, "dlsym", "the library has no hlthunk_" #name};'),
                         ["the library has no hlthunk_…"])
        self.assertEqual(texts('print("this is version " VERSION " of it");'), ["this is version … of it"])

    def test_concatenated_values_become_an_ellipsis(self):
        self.assertEqual(texts('refuse("the reason is " + why);'), ["the reason is …"])
        self.assertEqual(texts('refuse(name + " has no reason");'), ["… has no reason"])

    def test_literals_in_multi_line_macros_are_found(self):
        self.assertEqual(texts('#define REFUSE(call) \\\n    refuse(call, "the card is closed")\n'),
                         ["the card is closed"])

    def test_escapes_are_resolved(self):
        self.assertEqual(texts(r'print(stderr, "entry \"{}\" is\n wrong\n");'), ['entry "…" is wrong'])

    def test_raw_literals_are_read(self):
        self.assertEqual(texts('refuse(R"(a "quoted" reason)");'), ['a "quoted" reason'])

    def test_comments_includes_and_characters_are_skipped(self):
        self.assertEqual(texts('// refuse("not a message")\n/* "nor is this one" */\n#include "no such file.h"\n'
                               '#error "not a message"\nconst char quote = \'"\'; refuse("a real message");'),
                         ["a real message"])

    def test_single_words_are_no_messages(self):
        self.assertEqual(texts('call("hlthunk_open"); set("UCX_PLUGIN_PATH"); format("--topology: {}", a);'), [])

    def test_literals_of_other_calls_are_skipped(self):
        for source in ('static_assert(a, "must be so");', 'run->add_flag("--x", x, "Shows all of it");',
                       'host.allocate<Name<int>>(1, "name of memory");', 'from_zero(e, "f", format("{} in all", n));',
                       'constexpr LockRank kCard{280, "state of a card"};'):
            self.assertEqual(texts(source), [], source)

    def test_messages_inside_other_calls_are_found(self):
        self.assertEqual(texts('add_option("--x", [] { return refuse("this is wrong"); });'), ["this is wrong"])

    def test_levels_of_log_lines_are_read(self):
        found = list(messages.messages_of('GAUDI_UCX_LOG(hosts.at(1, 2), DIAG, "one %s two", a); refuse("not logged");',
                                          "file.cpp"))
        self.assertEqual([message.levels for message in found], [{"diag"}, set()])

    def test_place_is_the_line_of_the_literal(self):
        found = list(messages.messages_of('/* a\n b */\nrefuse(EIO,\n       "what went wrong");', "file.cpp"))
        self.assertEqual(found[0].place, "file.cpp:4")


SOURCE = 'refuse("card {} is lost", index);\nGAUDI_UCX_LOG(host, WARN, "no card is left");\n'
PAGE = """# Messages

| message | when it comes | what to do |
|---|---|---|
| `card … is lost` | always | buy one |
| `no card is left` | log `warn`: always | buy one |
"""


class Comparison(unittest.TestCase):
    def compare(self, source, page):
        """The exit code of the program and its lines."""
        with tempfile.TemporaryDirectory() as directory:
            root = Path(directory)
            (root / "src").mkdir()
            (root / "src" / "card.cpp").write_text(source, encoding="utf-8")
            (root / "page.md").write_text(page, encoding="utf-8")
            done = subprocess.run(
                [sys.executable, TOOLS / "messages.py", "--source", root / "src", "--page", root / "page.md"],
                capture_output=True, encoding="utf-8", check=False)
            self.assertEqual(done.stderr, "")
            return done.returncode, done.stdout.splitlines()

    def test_matching_page_is_accepted(self):
        self.assertEqual(self.compare(SOURCE, PAGE), (0, []))

    def test_missing_row_is_reported(self):
        self.assertEqual(self.compare(SOURCE + 'refuse("card {} is hot", 1);', PAGE),
                         (1, ["src/card.cpp:3: 'card … is hot' has no row in docs/messages.md: add one"]))

    def test_stale_row_is_reported(self):
        self.assertEqual(self.compare('refuse("card {} is lost", index);', PAGE),
                         (1, ["page.md:6: no code has the message 'no card is left': correct or remove the row"]))

    def test_changed_message_is_reported_twice(self):
        code, lines = self.compare(SOURCE.replace("is lost", "was lost"), PAGE)
        self.assertEqual((code, len(lines)), (1, 2))

    def test_repeated_row_is_reported(self):
        code, lines = self.compare(SOURCE, PAGE + "| `card … is lost` | again | buy one |\n")
        self.assertEqual((code, len(lines)), (1, 1))
        self.assertIn("repeats that of page.md:5", lines[0])

    def test_wrong_log_level_is_reported(self):
        self.assertEqual(self.compare(SOURCE, PAGE.replace("warn", "info")),
                         (1, ["page.md:6: the second cell of 'no card is left' must begin with 'log `warn`:'"]))

    def test_log_level_of_an_error_is_reported(self):
        self.assertEqual(self.compare(SOURCE, PAGE.replace("lost` | always", "lost` | log `warn`: always")),
                         (1, ["page.md:5: the second cell of 'card … is lost' must name no log level"]))

    def test_message_with_backticks_is_matched(self):
        self.assertEqual(self.compare('refuse("see `ucx_gaudi info` first");',
                                      "| `` see `ucx_gaudi info` first `` | always | do it |\n"), (0, []))


if __name__ == "__main__":
    unittest.main()
