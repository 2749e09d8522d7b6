"""Machines of a local cluster of Ray, for its tests."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest
from disks import require_tmpfs
from safeguards import require

from refaug.extras.cluster.search.node_copies import VARIABLE

_STORE = 100 << 20  # bytes of Ray's object store a machine


def start_head(redis=None, port=0):
    """Start a head that takes no tasks, at a free port, and stores what it knows of the cluster in this Redis."""
    from ray.cluster_utils import Cluster  # noqa: PLC0415  it reads the token when it is imported

    arguments = {"num_cpus": 0, "include_dashboard": False, "object_store_memory": _STORE, "gcs_server_port": port}
    with pytest.MonkeyPatch.context() as patch:
        if redis is not None:
            patch.setenv("RAY_REDIS_ADDRESS", redis)
        return Cluster(initialize_head=True, head_node_args=arguments)


@contextmanager
def redis_server(folder):
    """The address of a Redis that stores nothing on a disk."""
    program = shutil.which("redis-server")
    require("redis", found=program is not None, why="redis-server is not installed")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [program, "--port", str(port), "--bind", "127.0.0.1", "--save", "", "--appendonly", "no"]
    with subprocess.Popen([*command, "--dir", str(folder)], stdout=subprocess.DEVNULL) as process:
        try:
            while True:
                assert process.poll() is None
                with suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1):
                    break
            yield f"127.0.0.1:{port}"
        finally:
            process.terminate()


def lose_head(machines):
    """Kill the head's server, without which no process starts anywhere."""
    machines.head_node.kill_gcs_server()


def bring_head_back(machines):
    """Start the head's server again at the same address."""
    machines.head_node.start_gcs_server()


def add_machine(machines, **resources):
    """Start a machine of one core, with the cache of copies that the first one has: tests have no such variables."""
    kept = machines.__dict__.setdefault("node_cache", os.environ.get(VARIABLE))
    with pytest.MonkeyPatch.context() as patch:
        if kept is not None:
            patch.setenv(VARIABLE, kept)
        return machines.add_node(num_cpus=1, object_store_memory=_STORE, **resources)


@contextmanager
def machine_with_its_own_disk(cluster, address, folder, options="mode=755"):
    """A machine that has an empty disk where the others have this folder, until the block ends; the disk, from here."""
    require_tmpfs()
    ray = [str(Path(sys.executable).with_name("ray")), "start", "--address", address, "--block", "--num-cpus", "1"]
    script = 'mount -t tmpfs -o "$0" tmpfs "$1" && shift && exec "$@"'
    disk = ["unshare", "--mount", "sh", "-c", script, options, str(folder)]
    command = [*disk, *ray, "--object-store-memory", str(_STORE)]
    before = len(cluster.nodes())
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as process:
        try:
            while len(cluster.nodes()) == before:
                assert process.poll() is None, process.stdout.read()
            yield Path(f"/proc/{process.pid}/root") / folder.relative_to("/")
        finally:
            process.terminate()
            process.communicate(timeout=60)
