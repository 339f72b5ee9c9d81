#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""tools/check_includes.py on small trees that are made for one case each."""

import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

SCRIPT = Path(__file__).resolve().parents[2] / "tools" / "check_includes.py"


def check(files):
    """Runs the script on a tree of {path: included headers}. Returns (exit code, lines)."""
    with tempfile.TemporaryDirectory() as root:
        for name, includes in files.items():
            path = Path(root) / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text("".join(f"#include {header if header[0] == '<' else f'{chr(34)}{header}{chr(34)}'}\n"
                                    for header in includes))
        run = subprocess.run([sys.executable, SCRIPT, root], stdout=subprocess.PIPE, text=True, check=False)
        return run.returncode, run.stdout.splitlines()


class Folders(unittest.TestCase):
    def test_downward_includes_pass(self):
        code, lines = check({"src/thunk/error.h": [],
                             "src/gaudi/mover.h": ["thunk/error.h", "<vector>"],
                             "src/uct/iface.cpp": ["gaudi/mover.h"]})
        self.assertEqual((code, len(lines)), (0, 1), lines)

    def test_upward_include_fails(self):
        code, lines = check({"src/thunk/error.h": ["gaudi/mover.h"], "src/gaudi/mover.h": []})
        self.assertEqual(code, 1)
        self.assertEqual(lines, ["src/thunk/error.h includes src/gaudi/mover.h: "
                                 "src/thunk may include itself and src/os."])

    def test_product_including_a_model_fails(self):
        code, lines = check({"src/gaudi/mover.cpp": ["../../soft/gaudi/card.h"], "soft/gaudi/card.h": []})
        self.assertEqual((code, len(lines)), (1, 1), lines)
        self.assertIn("src/gaudi/mover.cpp includes soft/gaudi/card.h", lines[0])

    def test_model_of_the_card_including_the_model_of_the_hca_fails(self):
        code, lines = check({"soft/gaudi/card.cpp": ["hca/fabric.h"], "soft/hca/fabric.h": []})
        self.assertEqual((code, len(lines)), (1, 1), lines)

    def test_single_allowed_header_passes_and_its_neighbour_fails(self):
        tree = {"src/thunk/error.h": [], "src/thunk/device.h": [], "src/ucx/status.h": ["thunk/error.h"]}
        self.assertEqual(check(tree)[0], 0)
        code, lines = check({**tree, "src/ucx/host.h": ["thunk/device.h"]})
        self.assertEqual((code, len(lines)), (1, 1), lines)

    def test_folder_without_a_rule_fails(self):
        code, lines = check({"src/novel/thing.h": ["os/call.h"], "src/os/call.h": []})
        self.assertEqual((code, len(lines)), (1, 1), lines)
        self.assertIn("src/novel/thing.h", lines[0])

    def test_header_that_is_not_there_fails(self):
        code, lines = check({"src/os/call.h": ["lost.h"]})
        self.assertEqual((code, len(lines)), (1, 1), lines)

    def test_headers_of_ucx_outside_of_the_command_line_fail(self):
        self.assertEqual(check({"src/cli/ucx.cpp": ["<ucp/api/ucp.h>"]})[0], 0)
        code, lines = check({"src/gaudi/mover.cpp": ["<ucs/type/status.h>"]})
        self.assertEqual((code, len(lines)), (1, 1), lines)


class Rooms(unittest.TestCase):
    """The folders of src/gaudi, which stand on each other: card, framework, host, memory, copy."""

    def test_rooms_below_and_files_beside_the_rooms_pass(self):
        code, lines = check({"src/gaudi/lock_ranks.h": [],
                             "src/gaudi/card/session.h": ["gaudi/lock_ranks.h"],
                             "src/gaudi/copy/mover.h": ["gaudi/card/session.h", "../lock_ranks.h"],
                             "src/uct/iface.cpp": ["gaudi/copy/mover.h"]})
        self.assertEqual((code, len(lines)), (0, 1), lines)

    def test_room_above_fails(self):
        code, lines = check({"src/gaudi/card/session.cpp": ["copy/mover.h"], "src/gaudi/copy/mover.h": []})
        self.assertEqual((code, len(lines)), (1, 1), lines)
        self.assertIn("src/gaudi/card/session.cpp includes src/gaudi/copy/mover.h", lines[0])

    def test_file_beside_the_rooms_including_a_room_fails(self):
        code, lines = check({"src/gaudi/problem.h": ["card/session.h"], "src/gaudi/card/session.h": []})
        self.assertEqual((code, len(lines)), (1, 1), lines)


class Rings(unittest.TestCase):
    def test_ring_of_headers_fails_with_all_of_its_steps(self):
        code, lines = check({"src/os/a.h": ["b.h"], "src/os/b.h": ["c.h"], "src/os/c.h": ["a.h"]})
        self.assertEqual((code, len(lines)), (1, 1), lines)
        self.assertIn("src/os/a -> src/os/b -> src/os/c -> src/os/a", lines[0])
        for step in ("src/os/a.h includes src/os/b.h", "src/os/c.h includes src/os/a.h"):
            self.assertIn(step, lines[0])

    def test_ring_through_sources_fails(self):
        code, lines = check({"src/os/a.h": [], "src/os/a.cpp": ["a.h", "b.h"], "src/os/b.h": ["a.h"]})
        self.assertEqual((code, len(lines)), (1, 1), lines)
        self.assertIn("src/os/a -> src/os/b -> src/os/a", lines[0])
        self.assertIn("src/os/a.cpp includes src/os/b.h", lines[0])

    def test_two_rings_are_both_reported(self):
        code, lines = check({"src/os/a.h": ["b.h"], "src/os/b.h": ["a.h"],
                             "soft/common/a.h": ["b.h"], "soft/common/b.h": ["a.h"]})
        self.assertEqual((code, len(lines)), (1, 2), lines)

    def test_ring_that_shares_a_unit_with_a_reported_one_is_named(self):
        code, lines = check({"src/os/a.h": ["b.h", "c.h"], "src/os/b.h": ["a.h"], "src/os/c.h": ["a.h"]})
        self.assertEqual((code, len(lines)), (1, 2), lines)
        self.assertEqual(lines[1], "further units are in rings with those: src/os/c.")

    def test_units_that_share_a_header_pass(self):
        code, lines = check({"src/os/a.h": ["c.h"], "src/os/b.h": ["c.h", "a.h"], "src/os/b.cpp": ["b.h"],
                             "src/os/c.h": []})
        self.assertEqual((code, len(lines)), (0, 1), lines)


class Tree(unittest.TestCase):
    def test_tree_without_sources_is_no_success(self):
        self.assertEqual(check({"docs/page.md": []})[0], 2)


if __name__ == "__main__":
    unittest.main()
