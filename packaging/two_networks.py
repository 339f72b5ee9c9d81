# SPDX-License-Identifier: BSD-3-Clause
"""Two network namespaces with a cable (a veth pair) between them, for as long as a `with` block lasts. Needs root, or
the root of a user namespace (`unshare --user --map-root-user`)."""

import contextlib
import json
import subprocess

DEVICE = "eth0"


class Network:
    """A network namespace, held by a process that does nothing."""

    def __init__(self, holder):
        self.process_id = str(holder.pid)
        self._enter = ["nsenter", f"--net=/proc/{holder.pid}/ns/net"]

    def call(self, *words):
        return subprocess.run([*self._enter, *words], stdout=subprocess.PIPE, check=True).stdout

    def prefix(self):
        """The words before a command that is to run in the namespace. Its /sys shows the devices of the namespace: UCX
        finds them there."""
        return [*self._enter, "unshare", "--mount", "sh", "-c", 'mount -t sysfs sysfs /sys && exec "$@"', "sh"]

    def sent_bytes(self):
        link, = json.loads(self.call("ip", "-json", "-stats", "link", "show", DEVICE))
        return link["stats64"]["tx"]["bytes"]


@contextlib.contextmanager
def make_network():
    with subprocess.Popen(["unshare", "--net", "sh", "-c", "echo made && exec cat"], stdin=subprocess.PIPE,
                          stdout=subprocess.PIPE) as holder:  # at the end its input closes, and cat ends
        if not holder.stdout.readline():
            raise SystemExit("cannot make a network namespace: run it as root or by `unshare --user --map-root-user`")
        yield Network(holder)


@contextlib.contextmanager
def join_two():
    with make_network() as first, make_network() as second:
        first.call("ip", "link", "add", DEVICE, "type", "veth", "peer", "name", DEVICE, "netns", second.process_id)
        for network, address in ((first, "192.0.2.1/24"), (second, "192.0.2.2/24")):
            network.call("ip", "address", "add", address, "dev", DEVICE)
            network.call("ip", "link", "set", DEVICE, "up")
            network.call("ip", "link", "set", "lo", "up")
        yield first, second
