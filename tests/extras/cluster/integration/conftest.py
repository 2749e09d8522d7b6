"""A local cluster for all tests of this folder: a head without work, and two machines that can be killed."""

from __future__ import annotations

import os
import secrets
from importlib.util import find_spec
from pathlib import Path

import pytest
from cluster_machines import add_machine, start_head

if find_spec("ray") is None:  # make test-cluster has it
    collect_ignore_glob = ["test_*.py"]
elif find_spec("aiohttp_cors") is None:  # Ray's server for jobs wants it, and make test-cluster has it apart
    collect_ignore = ["test_cluster_submission.py"]

os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")


def pytest_collection_modifyitems(items):
    here = Path(__file__).parent
    for item in items:
        if here in item.path.parents:
            item.add_marker(pytest.mark.cluster)


@pytest.fixture(scope="session")
def token():
    """The token of the cluster, which every process of it reads when it imports Ray."""
    os.environ["RAY_AUTH_MODE"] = "token"
    os.environ["RAY_AUTH_TOKEN"] = secrets.token_hex(32)
    return os.environ["RAY_AUTH_TOKEN"]


@pytest.fixture(scope="session")
def node_cache(tmp_path_factory):
    """The folder of the machines' copies of shards, which every process of the cluster knows from its start."""
    folder = tmp_path_factory.mktemp("node-cache")
    os.environ["REFAUG_NODE_CACHE"] = str(folder)
    return folder


@pytest.fixture(scope="session")
def machines(token, node_cache):
    """The processes of a cluster, which end with the tests."""
    assert token
    assert node_cache
    cluster = start_head()
    for _ in range(2):
        add_machine(cluster)
    try:
        yield cluster
    finally:
        cluster.shutdown()


@pytest.fixture
def cluster(machines):
    from refaug.extras.cluster.connection import connect  # noqa: PLC0415  Ray reads the token when it is imported

    with connect(machines.address) as connected:
        yield connected
