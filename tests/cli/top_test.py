#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""ucx_gaudi top and metrics against a process that copies on the software Gaudi, a terminal, and clients of every kind.

usage: top_test.py UCX_GAUDI UCT_POSTING
"""

import fcntl
import json
import os
import pty
import re
import resource
import select
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import termios
import time
import unittest
from pathlib import Path

from schema import mismatches

ROOT = Path(__file__).resolve().parents[2]
POSTING, PROGRAM = sys.argv.pop(), sys.argv.pop()
PATIENCE = 60  # seconds until a test gives up


def command(*words, **options):
    return subprocess.run([PROGRAM, *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, check=False,
                          timeout=PATIENCE, **options)


def snapshot():
    done = command("top", "--json")
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def wait_for(step):
    limit = time.monotonic() + PATIENCE
    while time.monotonic() < limit:
        found = step()
        if found:
            return found
    raise TimeoutError(step)


class Case(unittest.TestCase):
    def setUp(self):
        self.directory = tempfile.TemporaryDirectory(dir="/dev/shm", prefix="top-test-")
        os.environ["GAUDI_COUNTERS_DIR"] = self.directory.name + "/counters"
        self.addCleanup(self.directory.cleanup)


class Live(Case):
    def start_copies(self):
        """A process that copies until it is ended, and its entry of top."""
        copies = subprocess.Popen([PROGRAM, "run", "--ucx", "rapids", "--", POSTING, "uct", "4000000000"],
                                  stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        self.addCleanup(copies.wait)
        self.addCleanup(copies.terminate)
        return copies, wait_for(lambda: next((process for process in snapshot()["processes"] if process["cards"]
                                              and process["cards"][0]["direct"]["down"]["copies"]), None))

    def test_process_is_shown_while_it_lives(self):
        copies, process = self.start_copies()
        found = snapshot()
        schema = json.loads((ROOT / "docs" / "schema" / "top-1.json").read_text())
        self.assertEqual(list(mismatches(schema, found)), [])
        self.assertTrue(found["software"] and process["software"])
        self.assertEqual((process["command"], len(process["cards"])), ("uct_posting", 1))
        card = process["cards"][0]
        self.assertEqual(card["direct"]["down"]["bytes"], 4096 * card["direct"]["down"]["copies"])
        self.assertEqual(card["host_mapping_misses"], 1)
        self.assertGreater(card["memory_held_bytes"], 0)
        later = snapshot()["processes"][0]["cards"][0]
        self.assertGreaterEqual(later["direct"]["down"]["copies"], card["direct"]["down"]["copies"])

        table = command("top").stdout
        self.assertRegex(table, rf"(?m)^ *{process['pid']}  uct_posting  all .*  SOFTWARE$")
        self.assertIn("SOFTWARE: the cards of these processes are those of softgaudi", table)
        self.assertEqual(json.loads(command("metrics", "--json").stdout).keys(), found.keys())

        os.kill(process["pid"], signal.SIGKILL)
        copies.wait()
        self.assertEqual(snapshot()["processes"], [])
        self.assertEqual(os.listdir(os.environ["GAUDI_COUNTERS_DIR"]), [])
        self.assertIn("no process of this user", command("top", "--once").stdout)

    def test_metrics_follow_the_text_format(self):
        _, process = self.start_copies()
        text = command("metrics").stdout
        kinds, values = {}, {}
        for line in text.splitlines():
            if line.startswith("# TYPE "):
                kinds[line.split()[2]] = line.split()[3]
            elif not line.startswith("#"):
                name, labels, value = re.fullmatch(r"([a-z_]+)\{(.*)\} (\d+)", line).groups()
                self.assertIn(name, kinds, "its type comes first")
                self.assertRegex(labels, rf'^page="[0-9.-]+",pid="{process["pid"]}",command="uct_posting"')
                self.assertEqual(kinds[name] == "counter", name.endswith("_total"), name)
                values[name, re.sub('^page="[^"]*",', "", labels)] = int(value)
        self.assertEqual({line.split()[2] for line in text.splitlines() if line.startswith("# HELP")}, set(kinds))
        labels = f'pid="{process["pid"]}",command="uct_posting",card="0"'
        self.assertGreaterEqual(values["ucx_gaudi_copied_bytes_total", labels + ',path="down"'], 4096)
        self.assertEqual(values["ucx_gaudi_errors_total", labels + ',kind="transfer"'], 0)
        documented = (ROOT / "docs" / "metrics.md").read_text()
        for name in kinds:
            self.assertIn(f"`{name}`", documented)

    def test_terminal_is_given_back(self):
        _, process = self.start_copies()
        for end in (b"q", b"\x03", b"\x1c", signal.SIGHUP):
            with self.subTest(end=end):
                ours, theirs = pty.openpty()
                before = termios.tcgetattr(theirs)
                fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 30, 250, 0, 0))
                # A session of its own, so that ^C reaches it from this terminal.
                top = subprocess.Popen([PROGRAM, "top"], stdin=theirs, stdout=theirs, stderr=theirs,
                                       start_new_session=True, env={**os.environ, "TERM": "xterm"},
                                       preexec_fn=lambda: os.close(os.open(os.ttyname(0), os.O_RDWR)))
                shown = b""

                def read_until(text):
                    nonlocal shown
                    limit = time.monotonic() + PATIENCE
                    while text not in shown:
                        self.assertLess(time.monotonic(), limit, shown)
                        self.assertTrue(select.select([ours], [], [], PATIENCE)[0], shown)
                        shown += os.read(ours, 65536)

                read_until(b"/s direct")  # of the second refresh
                self.assertIn(str(process["pid"]).encode(), shown)
                self.assertNotEqual(termios.tcgetattr(theirs)[3], before[3], "keys come without Enter")
                self.assertEqual(termios.tcgetattr(theirs)[6][termios.VSUSP], b"\0", "^Z does not stop it")
                if isinstance(end, bytes):
                    os.write(ours, end)
                else:
                    top.send_signal(end)
                read_until(b"\x1b[?25h\x1b[?1049l")
                self.assertEqual(top.wait(PATIENCE), 0)
                self.assertEqual(termios.tcgetattr(theirs), before)
                os.close(ours)
                os.close(theirs)

    def test_summary_is_printed_at_exit_where_it_is_asked_for(self):
        words = ("run", "--ucx", "rapids", "--", POSTING, "uct", "100")
        self.assertNotIn("submissions", command(*words).stderr)
        done = command(*words, env={**os.environ, "UCX_GAUDI_STATS": "y"})
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertRegex(done.stderr, r"ucx-gaudi: process \d+ \(uct_posting\), SOFTWARE: cards of softgaudi, not hardware\n"
                                      r"  card  direct MiB .*  errors\n +0 +\d.*\n$")
        self.assertNotIn("unused", done.stdout + done.stderr)  # UCX's warning of a variable that nothing declares


class Output(Case):
    def test_full_disk_and_bad_places_give_one_sentence(self):
        for words in (("top",), ("metrics",)):
            with open("/dev/full", "wb") as full:
                done = subprocess.run([PROGRAM, *words], stdout=full, stderr=subprocess.PIPE, text=True, check=False)
            self.assertEqual((done.returncode, done.stderr),
                             (1, "ucx_gaudi: cannot write to stdout: No space left on device\n"))
        done = command("metrics", "--output", "/nonexistent/x.prom")
        self.assertEqual((done.returncode, done.stderr),
                         (1, "ucx_gaudi: cannot write /nonexistent/x.prom: No such file or directory\n"))
        os.mkdir(os.environ["GAUDI_COUNTERS_DIR"], 0o755)
        os.chmod(os.environ["GAUDI_COUNTERS_DIR"], 0o755)
        for words in (("top",), ("metrics",), ("top", "--json")):
            done = command(*words)
            self.assertEqual((done.returncode, done.stdout), (1, ""))
            self.assertRegex(done.stderr, r"^ucx_gaudi: .*other users may enter it.*\n$")

    def test_file_is_replaced_in_one_step(self):
        target = Path(self.directory.name) / "gaudi.prom"
        target.write_text("old")
        with open(target, encoding="ascii") as reader:
            self.assertEqual(command("metrics", "-o", str(target)).returncode, 0)
            self.assertEqual(reader.read(), "old", "the old file is another one")
        self.assertIn("# TYPE ucx_gaudi_copies_total counter", target.read_text())
        self.assertEqual([entry.name for entry in Path(self.directory.name).iterdir()], ["gaudi.prom"])

    def test_link_and_fifo_and_device_stay_what_they_are(self):
        directory = Path(self.directory.name)
        (directory / "old").write_text("old")
        for name, target in (("link", "old"), ("dangling", "new")):
            (directory / name).symlink_to(target)
            self.assertEqual(command("metrics", "-o", str(directory / name)).returncode, 0)
            self.assertTrue((directory / name).is_symlink())
            self.assertIn("# TYPE ucx_gaudi_copies_total counter", (directory / target).read_text())
        os.mkfifo(directory / "fifo")
        reader = os.open(directory / "fifo", os.O_RDONLY | os.O_NONBLOCK)
        self.assertEqual(command("metrics", "-o", str(directory / "fifo")).returncode, 0)
        self.assertIn(b"# TYPE ucx_gaudi_copies_total counter", os.read(reader, 65536))
        os.close(reader)
        self.assertTrue((directory / "fifo").is_fifo())
        done = command("metrics", "-o", "/dev/full")
        self.assertEqual((done.returncode, done.stderr),
                         (1, "ucx_gaudi: cannot write /dev/full: No space left on device\n"))
        self.assertTrue(Path("/dev/full").is_char_device())

    def test_bad_usage_is_refused(self):
        for words in (("metrics", "--listen", "127.0.0.1:0", "--output", "x"), ("metrics", "--listen"),
                      ("top", "--interval", "3"), ("metrics", "--json", "--listen", "127.0.0.1:0")):
            self.assertEqual(command(*words).returncode, 2, words)
        for where in ("9400", "127.0.0.1", ":9400", "127.0.0.1:", "127.0.0.1:65536", "127.0.0.1:-1", "localhost:9400",
                      "::1:9400", "[::1:9400", "1.2.3.4.5:80", "127.0.0.1:80x", "x", "256.1.1.1:80"):
            done = command("metrics", "--listen", where)
            self.assertEqual((done.returncode, done.stdout), (2, ""), where)
            self.assertRegex(done.stderr, r"^ucx_gaudi: cannot listen on '.*': .*; give ADDRESS:PORT, .*\n$")


class Server(Case):
    def setUp(self):
        super().setUp()
        self.server = subprocess.Popen([PROGRAM, "metrics", "--listen", "127.0.0.1:0"], stderr=subprocess.PIPE, text=True)
        self.addCleanup(self.server.stderr.close)
        self.addCleanup(self.server.wait)
        self.addCleanup(self.server.kill)
        line = self.server.stderr.readline()
        self.port = int(re.fullmatch(r"ucx_gaudi: serving http://127\.0\.0\.1:(\d+)/metrics\n", line)[1])

    def connect(self):
        return socket.create_connection(("127.0.0.1", self.port), timeout=PATIENCE)

    def ask(self, request):
        with self.connect() as client:
            try:
                client.sendall(request)
            except (BrokenPipeError, ConnectionResetError):
                pass  # it has answered before all was sent
            answer = b""
            while piece := client.recv(65536):
                answer += piece
        return answer

    def status(self, request):
        return int(re.match(rb"HTTP/1\.1 (\d{3}) [A-Z]", self.ask(request))[1])

    def test_get_and_head_are_answered(self):
        head, _, body = self.ask(b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n").partition(b"\r\n\r\n")
        self.assertTrue(head.startswith(b"HTTP/1.1 200 OK\r\nContent-Type: text/plain; version=0.0.4; charset=utf-8\r\n"))
        self.assertIn(f"Content-Length: {len(body)}".encode(), head)
        self.assertIn(b"# TYPE ucx_gaudi_copies_total counter\n", body)
        only_head = self.ask(b"HEAD /metrics HTTP/1.0\r\n\r\n")
        self.assertEqual(only_head, head + b"\r\n\r\n")
        self.assertEqual(self.status(b"GET / HTTP/1.1\r\n\r\n"), 200)
        self.assertEqual(self.status(b"GET /metrics?name=x HTTP/1.1\n\n"), 200)

    def test_other_requests_are_refused(self):
        for request, status in ((b"GET /other HTTP/1.1\r\n\r\n", 404), (b"GET /metrics/ HTTP/1.1\r\n\r\n", 404),
                                (b"GET /../etc/passwd HTTP/1.1\r\n\r\n", 404), (b"POST /metrics HTTP/1.1\r\n\r\n", 405),
                                (b"DELETE / HTTP/1.1\r\n\r\n", 405), (b"get / HTTP/1.1\r\n\r\n", 405),
                                (b"GET /metrics\r\n\r\n", 400), (b"GET\r\n\r\n", 400), (b"\r\n\r\n", 400),
                                (b"GET  / HTTP/1.1\r\n\r\n", 400), (b"GET / x HTTP/1.1\r\n\r\n", 400),
                                (b"GET / HTTP/2\r\n\r\n", 400), (b"\x16\x03\x01\x00\xa5\n\n", 400),
                                (bytes(range(256)) + b"\n\n", 400), (b"GET /" + b"a" * 20000, 431),
                                (b"GET / HTTP/1.1\r\n" + b"X: y\r\n" * 5000, 431)):
            self.assertEqual(self.status(request), status, request[:60])
        self.assertEqual(self.status(b"GET /metrics HTTP/1.1\r\n\r\n"), 200)

    def test_slow_and_silent_clients_do_not_keep_others_waiting(self):
        silent = [self.connect() for _ in range(10)]
        slow = self.connect()
        slow.sendall(b"GET /metr")
        self.connect().close()
        reset = self.connect()
        reset.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
        reset.sendall(b"GET /metrics HTTP/1.1\r\n\r\n")
        reset.close()
        self.assertEqual(self.status(b"GET /metrics HTTP/1.1\r\n\r\n"), 200)
        slow.sendall(b"ics HTTP/1.1\r\n\r\n")
        self.assertTrue(slow.recv(100).startswith(b"HTTP/1.1 200"))
        for client in (*silent, slow):
            client.close()

    def test_connections_are_bounded(self):
        clients = [self.connect() for _ in range(40)]  # more than it serves at once; the kernel queues the others
        for client in clients:
            client.sendall(b"GET / HTTP/1.1\r\n\r\n")
        for client in clients:
            self.assertTrue(client.recv(100).startswith(b"HTTP/1.1 200"))
            client.close()
        self.assertEqual(self.status(b"GET / HTTP/1.1\r\n\r\n"), 200)

    def test_unreadable_page_is_named_once(self):
        counters = Path(os.environ["GAUDI_COUNTERS_DIR"])
        counters.mkdir(mode=0o700, exist_ok=True)
        page = counters / f"{os.getpid()}-1.000000000"
        page.write_bytes(b"no page")
        file = os.open(page, os.O_RDONLY)
        self.addCleanup(os.close, file)
        fcntl.flock(file, fcntl.LOCK_EX)  # as of a process that lives
        for _ in range(3):
            self.assertEqual(self.status(b"GET /metrics HTTP/1.1\r\n\r\n"), 200)
        self.server.send_signal(signal.SIGTERM)
        self.assertEqual(self.server.wait(PATIENCE), 0)
        self.assertRegex(self.server.stderr.read(), rf"^ucx_gaudi: {page} is skipped: .*\n$")

    def test_server_out_of_descriptors_waits_for_them(self):
        first = self.connect()
        first.sendall(b"GET /metr")
        fds = f"/proc/{self.server.pid}/fd"
        wait_for(lambda: any(os.readlink(f"{fds}/{fd}").startswith("socket") for fd in os.listdir(fds) if int(fd) > 3))
        usual = resource.prlimit(self.server.pid, resource.RLIMIT_NOFILE)
        resource.prlimit(self.server.pid, resource.RLIMIT_NOFILE, (max(map(int, os.listdir(fds))) + 1, usual[1]))
        second = self.connect()  # in the queue
        second.sendall(b"GET / HTTP/1.1\r\n\r\n")

        def steps():
            return int(re.search(r"voluntary_ctxt_switches:\s+(\d+)", Path(f"/proc/{self.server.pid}/status").read_text())[1])

        before = steps()  # it sleeps between the tries: one that spins never does
        wait_for(lambda: steps() > before + 1)
        resource.prlimit(self.server.pid, resource.RLIMIT_NOFILE, usual)
        self.assertTrue(second.recv(100).startswith(b"HTTP/1.1 200"))
        first.close()
        second.close()

    def test_signals_end_it(self):
        client = self.connect()  # in the middle of a request
        client.sendall(b"GET")
        self.server.send_signal(signal.SIGTERM)
        self.assertEqual(self.server.wait(PATIENCE), 0)
        client.close()

    def test_port_in_use_is_refused(self):
        done = command("metrics", "--listen", f"127.0.0.1:{self.port}")
        self.assertEqual((done.returncode, done.stderr),
                         (1, f"ucx_gaudi: cannot listen on 127.0.0.1:{self.port}: another program uses that port\n"))


if __name__ == "__main__":
    unittest.main()
