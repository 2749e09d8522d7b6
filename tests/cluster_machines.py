"""Machines of a local cluster of Ray, for its tests."""

from __future__ import annotations

import os
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path

import pytest
from disks import require_tmpfs

from refaug.indexer.search.on_cluster.node_copies import VARIABLE

_STORE = 100 << 20  # bytes of Ray's object store a machine


def start_head():
    """Start a head that takes no tasks."""
    from ray.cluster_utils import Cluster  # noqa: PLC0415  it reads the token when it is imported

    arguments = {"num_cpus": 0, "include_dashboard": False, "object_store_memory": _STORE}
    return Cluster(initialize_head=True, head_node_args=arguments)


def add_machine(machines, **resources):
    """Start a machine of one core, with the cache of copies that the first one has: tests have no such variables."""
    kept = machines.__dict__.setdefault("node_cache", os.environ.get(VARIABLE))
    with pytest.MonkeyPatch.context() as patch:
        if kept is not None:
            patch.setenv(VARIABLE, kept)
        return machines.add_node(num_cpus=1, object_store_memory=_STORE, **resources)


@contextmanager
def machine_with_its_own_disk(cluster, address, folder):
    """A machine that has an empty disk where the others have this folder, until the block ends."""
    require_tmpfs()
    ray = [str(Path(sys.executable).with_name("ray")), "start", "--address", address, "--block", "--num-cpus", "1"]
    script = 'mount -t tmpfs tmpfs "$0" && exec "$@"'
    command = ["unshare", "--mount", "sh", "-c", script, str(folder), *ray, "--object-store-memory", str(_STORE)]
    before = len(cluster.nodes())
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as process:
        try:
            while len(cluster.nodes()) == before:
                assert process.poll() is None, process.stdout.read()
            yield
        finally:
            process.terminate()
            process.communicate(timeout=60)
