#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""bench_peer with tiny counts: every row is there, its bytes arrived, and wrong ones are noticed.

    peer_test.py UCX_GAUDI ENGINE BENCH_PEER
"""

import json
import os
import subprocess
import sys
import unittest

RUN, ENGINE, PROGRAM = sys.argv[1:4]
TINY = {"--rounds": "2", "--count": "128", "--ranges": "70", "--threads": "1,2", "--thread-ms": "1", "--bytes": "100003"}


def run(*words, options=None, **variables):
    chosen = [word for option in {**TINY, **(options or {})}.items() for word in option]
    command = [RUN, "run", "--ucx", ENGINE, "--cards", "2", "--", PROGRAM, *chosen, *words]
    return subprocess.run(command, env={**os.environ, **variables}, stdin=subprocess.DEVNULL, capture_output=True,
                          text=True, check=False)


class Peer(unittest.TestCase):
    def rows(self, *words, **variables):
        done = run("--json", *words, **variables)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        return json.loads(next(line for line in done.stdout.splitlines() if line.startswith("{")))["rows"]

    def test_every_row_has_samples(self):
        rows = self.rows()
        names = [row["what"] for row in rows]
        self.assertEqual(names, ["put", "allocate", "free", "register", "deregister", *["put from ranges"] * 2, "ucp_init",
                                 *["put by threads"] * 2, *["tag", "put", "get"] * 2])
        for row in rows:
            samples = row["other_ns"] if "transports" in row else row["processor_ns"]
            self.assertEqual(len(samples), 2, row)
            self.assertTrue(all(sample >= 0 for sample in samples), row)
        self.assertEqual([row["transports"] for row in rows[-6:]], ["sm,gaudi_cpy"] * 3 + ["tcp,gaudi_cpy"] * 3)

    def test_both_types_may_be_gaudi_or_host(self):
        for types in (["--from", "gaudi", "--to", "gaudi"], ["--from", "gaudi", "--to", "host"]):
            rows = self.rows("--parts", "put,transfer", "--tls", "sm,gaudi_cpy", *types)
            self.assertEqual(len(rows), 4, types)

    def test_table_names_each_row(self):
        done = run("--parts", "put,ranges")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("put 4096 B, 64 at a time ", done.stdout)
        self.assertIn("70 ranges on every other page ", done.stdout)

    def test_bytes_that_do_not_move_are_noticed(self):
        """A card that completes copies and moves nothing after the first 8 MiB."""
        for part, more in (("ranges", {"--ranges": "1024"}), ("transfer", {"--bytes": str(16 << 20)})):
            done = run("--parts", part, options=more, SOFTGAUDI_PACE="null:8")
            self.assertEqual(done.returncode, 1, part + done.stdout)
            self.assertIn("wrong bytes arrived", done.stderr, part)

    def test_bytes_beyond_the_check_are_not_compared(self):
        self.rows("--parts", "put,ranges,threads", "--check", "65536", SOFTGAUDI_PACE="null:8")

    def test_unknown_type_is_refused(self):
        done = run("--to", "abacus")
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("UCX has no memory type abacus", done.stderr)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
