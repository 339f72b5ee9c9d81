#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""ucx_gaudi topo on the server that softgaudi and softhca model."""

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import unittest
import xml.etree.ElementTree as xml
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
sys.path.insert(0, str(ROOT / "tests" / "cli"))
from schema import mismatches  # noqa: E402

FAKE_UCX = sys.argv.pop()
PROGRAM = sys.argv.pop()
SERVER = ["run", "--hca", "4", "--topology", "--"]


def run(*words, **variables):
    return subprocess.run([PROGRAM, *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, check=False,
                          env={**os.environ, **variables})


def topo(*words, **variables):
    """On the whole server, as JSON."""
    done = run(*SERVER, PROGRAM, "topo", "--json", *words, **variables)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def schema(name):
    return json.loads((ROOT / "docs" / "schema" / name).read_text())


class Topo(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.directory = tempfile.TemporaryDirectory()
        cls.file = str(Path(cls.directory.name) / "machine.json")
        cls.picture = str(Path(cls.directory.name) / "server.svg")
        done = run(*SERVER, PROGRAM, "dump", "-o", cls.file)
        assert done.returncode == 0, done.stderr

    @classmethod
    def tearDownClass(cls):
        cls.directory.cleanup()

    def refused(self, *words, file=None, sentence):
        done = run("topo", "--from", file or self.file, *words)
        self.assertEqual((done.returncode, done.stdout), (1, ""))
        self.assertRegex(done.stderr, f"^ucx_gaudi: {sentence}\n$")

    def test_server_is_shown_as_it_is_modelled(self):
        shown = topo()
        self.assertEqual(list(mismatches(schema("topo-1.json"), shown)), [])
        names = [device["name"] for device in shown["devices"]]
        self.assertEqual(names, [f"GAUDI_{i}" for i in range(8)] + [f"softhca{i}" for i in range(4)])
        self.assertEqual(shown["relations"][0],
                         ["X", "PIX", "NODE", "NODE", "SYS", "SYS", "SYS", "SYS", "NODE", "SYS", "PIX", "SYS"])
        nearest = [card["nearest_nics"] for card in shown["cards"]]
        self.assertEqual(nearest, [[f"softhca{i}"] for i in (2, 2, 0, 0, 3, 3, 1, 1)])
        self.assertEqual({card["nearest_relation"] for card in shown["cards"]}, {"PIX"})
        self.assertEqual(len(shown["ucx"]["distances"]), 32)
        self.assertEqual(shown["devices"][8]["bus_id"], "0000:1c:00.0")
        self.assertEqual(shown["devices"][8]["rate_gbit_per_s"], 200)
        self.assertEqual(shown["devices"][0]["link_mt_per_s"], 16000)
        self.assertEqual(shown["warnings"], [])
        self.assertIs(shown["software"], True)

    def test_file_gives_what_the_machine_gave(self):
        self.assertEqual(list(mismatches(schema("dump-1.json"), json.loads(Path(self.file).read_text()))), [])
        self.assertEqual(json.loads(run("topo", "--json", "--from", self.file).stdout), topo())

    def test_text_has_a_row_for_each_device_and_the_legend(self):
        text = run("topo", "--from", self.file).stdout
        self.assertRegex(text, r"(?m)^GAUDI_2 +NODE +NODE +X +PIX( +SYS){4} +PIX +SYS +NODE +SYS +\S+ +0$")
        self.assertRegex(text, r"(?m)^softhca3( +SYS){4} +PIX +PIX +NODE +NODE +SYS +NODE +SYS +X +\S+ +1$")
        self.assertRegex(text, r"(?m)^GAUDI_2  0000:1a:00.0  softhca0 \(PIX\)  softhca0, softhca2  softhca0$")
        for word in ("X", "PIX", "PXB", "PHB", "NODE", "SYS"):
            self.assertRegex(text, rf"(?m)^  {word} +\w")
        self.assertNotRegex(text, r"(?m) $|WARN|\033")

    def test_other_provider_of_distances_gives_a_warning(self):
        (warning,) = topo(UCX_TOPO_PRIO="default")["warnings"]
        self.assertIn("equally near", warning)
        self.assertIn("UCX_TOPO_PRIO=default (environment)", warning)

    def test_ucx_uses_the_nics_that_are_named(self):
        variables = {"UCX_MAX_RMA_RAILS": "4", "UCX_TLS": "rc_v,gaudi_cpy"}
        cards = topo(**variables)["cards"]
        for card in (0, 6):
            done = run("run", "--hca", "4", "--topology", "--ucx", "nixl-1.22", "--", "ucx_perftest", "-l", "-t", "ucp_put_bw",
                       "-m", "gaudi", "-n", "2", "-w", "0", "-s", "4194304", UCX_PROTO_INFO="y",
                       UCX_GAUDI_COPY_DEVICE=str(card), **variables)
            shares = [line for line in done.stdout.splitlines() if "% on" in line]
            self.assertTrue(shares, done.stdout + done.stderr)
            for line in shares:
                self.assertEqual(set(re.findall(r"softhca\d", line)), set(cards[card]["ucx_put_get_nics"]))

    def test_settings_limit_the_nics(self):
        shown = topo(UCX_NET_DEVICES="softhca1:1,softhca3:1", UCX_MAX_RNDV_RAILS="1")
        self.assertEqual(shown["ucx"]["settings"]["UCX_MAX_RNDV_RAILS"], "1")
        self.assertEqual([card["ucx_rendezvous_nics"] for card in shown["cards"][4:]],
                         [["softhca3"], ["softhca3"], ["softhca1"], ["softhca1"]])

    def test_picture_is_xml_with_every_device(self):
        done = run("topo", "--from", self.file, "--svg", self.picture)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        words = [element.text for element in xml.parse(self.picture).iter() if element.tag.endswith("}text")]
        for name in [f"GAUDI_{i}" for i in range(8)] + [f"softhca{i}" for i in range(4)] + ["NUMA node 0", "NUMA node 1"]:
            self.assertEqual(words.count(name), 1, name)

    def test_ucx_without_distances_is_said(self):
        libraries = Path(self.directory.name) / "fake"
        libraries.mkdir()
        for name in ("libucs.so.0", "libucp.so.0"):
            shutil.copy(FAKE_UCX, libraries / name)
        done = run("run", "--hca", "--topology", "--", "env", f"LD_LIBRARY_PATH={libraries}", PROGRAM, "topo")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("\nUCX 1.22.0 (LD_LIBRARY_PATH) gives no distances: it has no ucs_topo_find_device_by_bdf_name or no "
                      "ucs_topo_get_distance\n", done.stdout)

    def test_bad_files_are_refused_in_a_sentence(self):
        self.refused("--svg", "/nonexistent/x.svg", sentence="cannot write /nonexistent/x.svg: No such file or directory")
        self.refused("--svg", "/dev/full", sentence="cannot write /dev/full: No space left on device")
        truncated = Path(self.directory.name) / "truncated.json"
        truncated.write_text(Path(self.file).read_text()[:1000])
        self.refused(file=str(truncated), sentence=".*truncated.json is no file of ucx_gaudi dump: .*")
        self.refused(file="/nonexistent", sentence="cannot read /nonexistent: No such file or directory")
        with open("/dev/full", "w", encoding="ascii") as full:
            done = subprocess.run([PROGRAM, "topo", "--from", self.file], stdout=full, stderr=subprocess.PIPE, text=True,
                                  check=False)
        self.assertEqual(done.returncode, 1)
        self.assertEqual(done.stderr.count("\n"), 1, done.stderr)


if __name__ == "__main__":
    unittest.main()
