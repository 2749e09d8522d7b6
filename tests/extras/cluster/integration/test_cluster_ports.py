"""What Ray's open ports do with bytes from strangers: nothing ends, nothing is told, and builds go on."""

from __future__ import annotations

import os
import random
import socket
import subprocess
import sys
from contextlib import ExitStack, suppress
from pathlib import Path

import pytest
from cluster_builds import assert_is, order_of, processes_below, small_home

from refaug.core.progress import Silent
from refaug.indexer.building.build import build_index

pytestmark = [pytest.mark.slow, pytest.mark.faults]

LISTENING = "0A"  # in /proc/net/tcp
HTTP2 = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes.fromhex("000000040000000000")  # with empty settings
NO_TOKEN = b"grpc-status\x0216"
PROGRAM = """
import ray
ray.init(address="{address}", log_to_driver=False)
print("joined")
"""


@pytest.fixture(scope="module")
def places(tmp_path_factory):
    return small_home(tmp_path_factory.mktemp("ports") / "home")


def open_ports():
    """The ports at which the processes of this test's clusters listen."""
    listening = {}
    for table in ("tcp", "tcp6"):
        for row in Path("/proc/net", table).read_text().splitlines()[1:]:
            _, local, _, state, *_, inode = row.split()[:10]
            if state == LISTENING:
                listening[f"socket:[{inode}]"] = int(local.rpartition(":")[2], 16)
    ports = set()
    for process in processes_below(os.getpid()):
        with suppress(OSError):
            held = [str(handle.readlink()) for handle in Path(f"/proc/{process}/fd").iterdir()]
            ports.update(listening[name] for name in held if name in listening)
    return sorted(ports)


def call(token=None):
    """A call of gRPC for the names of all that the head stores, the functions that workers run among them."""
    headers = {
        ":method": "POST",
        ":scheme": "http",
        ":path": "/ray.rpc.InternalKVGcsService/InternalKVKeys",
        ":authority": "head",
        "content-type": "application/grpc",
        "te": "trailers",
    }
    if token is not None:
        headers["authorization"] = f"Bearer {token}"
    block = b"".join(
        b"\x00" + bytes([len(name)]) + name.encode() + bytes([len(text)]) + text.encode()
        for name, text in headers.items()
    )
    message = bytes.fromhex("000005000100000001") + bytes(5)  # an empty one, the last of the stream
    return HTTP2 + len(block).to_bytes(3, "big") + bytes.fromhex("010400000001") + block + message


def answer_to(port, sent):
    """The first that comes back, until the other side has nothing more to say for a second."""
    said = b""
    with suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1) as there:
        there.sendall(sent)
        for _ in range(20):
            said += there.recv(1 << 16)
    return said


def test_bytes_from_strangers_end_nothing(cluster, machines, places, token):
    alone = build_index(places, order_of("alone", 2), Silent()).manifest
    before, ports = {node.address for node in cluster.nodes()}, open_ports()
    head = int(machines.address.rpartition(":")[2])
    assert head in ports
    assert NO_TOKEN in answer_to(head, call())
    assert NO_TOKEN in answer_to(head, call("0" * 64))
    assert NO_TOKEN not in answer_to(head, call(token))
    drawn = random.Random(7)
    hostile = (
        call(),
        HTTP2 + drawn.randbytes(1 << 16),
        drawn.randbytes(1 << 16),
        b"\xff" * (1 << 16),
        bytes(1 << 16),
        b"GET / HTTP/1.1\r\nHost: head\r\n\r\n",
        b"POST /api/jobs/ HTTP/1.1\r\nHost: head\r\nContent-Length: 22\r\n\r\n" + b'{"entrypoint": "true"}',
    )
    with ExitStack() as held:
        for port in ports:
            for _ in range(5):  # that say nothing, and stay
                with suppress(OSError):
                    held.enter_context(socket.create_connection(("127.0.0.1", port), timeout=1))
            for sent in hostile:
                answer_to(port, sent)
        assert_is(build_index(places, order_of("attacked", 2), Silent(), cluster=cluster).manifest, alone)
    assert {node.address for node in cluster.nodes()} == before
    assert_is(build_index(places, order_of("after", 2), Silent(), cluster=cluster).manifest, alone)


def test_a_program_joins_with_the_token_alone(machines, tmp_path, token):
    command = [sys.executable, "-c", PROGRAM.format(address=machines.address)]
    said = {}
    for name, own_token in (("none", None), ("another", "0" * 64), ("right", token)):
        environment = {**os.environ, "HOME": str(tmp_path), "RAY_AUTH_TOKEN": own_token or ""}
        if own_token is None:
            del environment["RAY_AUTH_TOKEN"]
        ended = subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=180)
        said[name] = (ended.returncode == 0, ended.stdout.strip())
    assert said == {"none": (False, ""), "another": (False, ""), "right": (True, "joined")}
