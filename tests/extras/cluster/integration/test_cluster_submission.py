"""A build that is submitted to a cluster as a job of Ray, from a process that does not belong to the cluster.

Ray's server for jobs has further packages, so `make test-cluster` runs this file in an environment apart.
"""

from __future__ import annotations

import os
import re
import secrets
import shutil
import subprocess
import sys
import tempfile
from contextlib import contextmanager

import pytest
from cluster_builds import assert_is, order_of, small_home

from refaug.core.progress import Silent
from refaug.indexer.building.build import build_index
from refaug.indexer.manifest import IndexManifest

RAY = (sys.executable, "-m", "ray.scripts.scripts")
BUILD = (
    *(sys.executable, "-m", "refaug", "index", "build", "chat", "more", "--name", "submitted"),
    *("--shards", "3", "--on", "auto", "--vectors", "glove", "--tokenizer", "word", "--check-queries", "50"),
    *("--least-coverage", "0", "--factory", "PCAR8,IVF8,PQ4x4fs", "--recall", "0.5"),
)


@contextmanager
def head_with_jobs(environment):
    """The address at which a head takes jobs."""
    folder = tempfile.mkdtemp(prefix="ray-")  # short, since sockets lie in it
    ports = ("--port", "--dashboard-port", "--dashboard-agent-listen-port", "--min-worker-port", "--max-worker-port")
    command = [
        *(*RAY, "start", "--head", "--block", "--num-cpus", "1", "--dashboard-host", "127.0.0.1"),
        *(f"{port}=0" for port in ports),
        *("--object-store-memory", str(100 << 20), "--temp-dir", folder),
    ]
    with subprocess.Popen(
        command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    ) as process:
        lines = []
        try:
            for line in process.stdout:
                lines.append(line)
                if match := re.search(r"RAY_API_SERVER_ADDRESS='(http://[^']+)'", line):
                    yield match[1]
                    break
            else:
                pytest.fail("".join(lines))
        finally:
            process.terminate()
            process.communicate()
            shutil.rmtree(folder, ignore_errors=True)


def submit(address, environment):
    command = [*RAY, "job", "submit", "--address", address, "--", *BUILD]
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=240)


@pytest.mark.slow
def test_a_submitted_build_makes_the_version_of_one_machine_and_wants_the_token(tmp_path):
    places = small_home(tmp_path / "home")
    expected = build_index(places, order_of("alone", 3), Silent()).manifest
    outside = {**os.environ, "RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": secrets.token_hex(32), "NO_COLOR": "1"}
    inside = {**outside, "REFAUG_HOME": str(tmp_path / "home"), "RAY_USAGE_STATS_ENABLED": "0"}
    outside.pop("REFAUG_HOME", None)
    with head_with_jobs(inside) as address:
        refused = submit(address, {**outside, "RAY_AUTH_TOKEN": secrets.token_hex(32)})
        assert refused.returncode != 0
        assert "Invalid authentication token" in refused.stderr
        assert places.indexes.current("submitted") is None
        done = submit(address, outside)
        assert done.returncode == 0, done.stdout + done.stderr
        assert "measuring recall" in done.stdout
    name, version = places.indexes.resolve("submitted")
    assert_is(IndexManifest.read(places.indexes.folder(name, version)), expected)
