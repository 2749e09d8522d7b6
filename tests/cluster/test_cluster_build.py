"""Indexes built on a cluster: file by file those of one machine, whatever dies meanwhile."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from random import Random

import numpy as np
import pytest
from cluster_machines import add_machine
from indexes import add_to_log, home_of
from plain_search import RawPair

from refaug.core.errors import Conflict, Interrupted, Usage
from refaug.core.progress import Silent
from refaug.indexer.building.build import build_index
from refaug.indexer.building.on_cluster import shards as shards_on_cluster
from refaug.indexer.building.order import IndexOrder
from refaug.indexer.building.plan import Limits
from refaug.indexer.building.update import erased_keys, update_index
from refaug.indexer.manifest import IndexManifest

WORDS = tuple(f"w{number}" for number in range(60))
UNKNOWN = tuple(f"x{number}" for number in range(300))  # without a vector: numbered as they occur
MANY = 8  # shards: with two cores some tasks of a stage run when its first has ended


def pairs_of_chance(count, log="chat"):
    random = Random(count)
    texts = [" ".join(random.choices(WORDS + UNKNOWN, k=random.choice((1, 2, 2, 3, 4, 6)))) for _ in range(count)]
    return [
        RawPair(log, f"d{number % 97}", str(number), random.choice(texts), random.choice(texts), None, "s")
        for number in range(count)
    ]


@pytest.fixture(scope="module")
def places(tmp_path_factory):
    rows = np.random.default_rng(1).standard_normal((len(WORDS), 16)).astype(np.float32)
    home = home_of(
        tmp_path_factory.mktemp("cluster") / "home", pairs_of_chance(3_000), dict(zip(WORDS, rows, strict=True))
    )
    add_to_log(home, "chat", pairs_of_chance(1_000))
    add_to_log(home, "more", pairs_of_chance(500, "more"))
    return home


def order_of(name, shards=MANY, factory="PCAR8,IVF8,PQ4x4fs", **settings):
    return IndexOrder(
        name=name,
        logs=("chat", "more"),
        vectors="glove",
        tokenizer="word",
        shards=shards,
        check_queries=50,
        least_coverage=0.0,
        limits=Limits(factory=factory, recall=0.5),
        **settings,
    )


class Stages(Silent):
    """Notes which stages run; calls a function when the first task of each has ended."""

    def __init__(self, after_first=lambda stage: None):
        self.stages, self._after_first, self._done = [], after_first, 0

    def stage(self, name, total=None, unit=""):
        self.stages.append(name.partition(" on ")[0])
        self._done = 0

    def advance(self, amount):
        self._done += amount
        if amount and self._done == 1:
            self._after_first(self.stages[-1])


@pytest.fixture(scope="module")
def expected(places):
    """What one machine builds."""
    return build_index(places, order_of("alone"), Silent()).manifest


def content_of(manifest):
    plan = {name: manifest.plan[name] for name in ("factory", "effort", "depth", "expected_recall", "why")}
    return manifest.id, manifest.files, manifest.segments, plan, replace(manifest.check, seconds=0)


def assert_is(manifest, expected):
    assert content_of(manifest) == content_of(expected)


def left_of(name, places):
    return sorted(path.name for path in places.cache.iterdir() if f"index-{name}-" in path.name)


@pytest.mark.parametrize(("factory", "shards"), [("Flat", 3), ("PCAR8,IVF8,PQ4x4fs", 5)])
def test_a_cluster_builds_the_files_that_one_machine_builds(cluster, places, factory, shards):
    alone = build_index(places, order_of("one", shards, factory), Silent(), again=True)
    together = build_index(places, order_of("two", shards, factory), Silent(), again=True, cluster=cluster)
    assert_is(together.manifest, alone.manifest)
    assert together.published
    assert together.manifest.utterances == alone.manifest.utterances > 1_000
    folder = places.indexes.folder("two", together.version)
    assert not [path for path in folder.rglob("*") if path.is_symlink()]
    assert left_of("two", places) == []


def test_a_build_on_a_cluster_leaves_out_what_was_deleted(cluster, places):
    first = build_index(places, order_of("gone", 3, bm25=None), Silent(), again=True, cluster=cluster)
    keys = erased_keys(dialogues=[f"d{number}" for number in range(50)])
    update_index(places, "gone", Silent(), erase=keys)
    again = build_index(places, order_of("gone", 3, bm25=None), Silent(), again=True, cluster=cluster)
    alone = build_index(places, order_of("gone", 3, bm25=None), Silent(), again=True)
    assert again.manifest.pairs < first.manifest.pairs
    assert_is(again.manifest, alone.manifest)


def processes_titled(title):
    """The processes of Ray that have a task of this name now."""
    found = []
    for path in Path("/proc").iterdir():
        if path.name.isdigit():
            try:
                if (path / "cmdline").read_bytes().startswith(title.encode()):
                    found.append(int(path.name))
            except OSError:
                continue
    return found


def test_killed_tasks_are_done_again(cluster, places, expected):
    killed = []

    def kill(stage):
        for process in processes_titled("ray::"):
            title = Path(f"/proc/{process}/cmdline").read_bytes().rstrip(b"\0").decode()
            if title.startswith(("ray::write_table", "ray::code_shard", "ray::add_shard", "ray::number_words")):
                os.kill(process, signal.SIGKILL)
                killed.append((stage, title))

    built = build_index(places, order_of("killed"), Stages(kill), cluster=cluster)
    assert killed
    assert_is(built.manifest, expected)
    assert left_of("killed", places) == []


def test_a_build_survives_the_death_of_a_machine(cluster, machines, places, expected):
    gone = []

    def remove(stage):
        if stage == "adding vectors":
            gone.append(stage)
            machines.remove_node(machines.worker_nodes.copy().pop(), allow_graceful=False)

    try:
        built = build_index(places, order_of("machine"), Stages(remove), cluster=cluster)
    finally:
        add_machine(machines)
    assert gone == ["adding vectors"]
    assert_is(built.manifest, expected)


def test_a_stopped_build_goes_on_from_finished_stages(cluster, places, expected):
    def stop(stage):
        if stage == "adding vectors":
            raise Interrupted("stopped")

    first, second = Stages(stop), Stages()
    with pytest.raises(Interrupted):
        build_index(places, order_of("stopped"), first, cluster=cluster)
    built = build_index(places, order_of("stopped"), second, cluster=cluster)
    assert first.stages[:3] == ["grouping", "writing tables", "reading words"]
    assert second.stages[0] == "adding vectors"
    assert_is(built.manifest, expected)


def test_a_build_begun_on_a_cluster_goes_on_alone(cluster, places, expected):
    def stop(now):
        if now == "numbering words":
            raise Interrupted("stopped")

    name = "alone-then"
    with pytest.raises(Interrupted):
        build_index(places, order_of(name), Stages(stop), cluster=cluster)
    assert_is(build_index(places, order_of(name), Silent()).manifest, expected)
    assert left_of(name, places) == []


def test_a_build_begun_alone_goes_on_on_a_cluster(cluster, places, expected):
    class StopsInWords(Silent):
        words = 0

        def stage(self, name, total=None, unit=""):
            self.words += name == "reading words"
            if self.words == 3:
                raise Interrupted("stopped")

    with pytest.raises(Interrupted):
        build_index(places, order_of("begun"), StopsInWords())
    after = Stages()
    assert_is(build_index(places, order_of("begun"), after, cluster=cluster).manifest, expected)
    assert after.stages[0] == "reading words"


def command(places, name, address):
    home = places.logs.parent
    return {
        "args": [
            *(
                sys.executable,
                "-m",
                "refaug.cli.main",
                "index",
                "build",
                "chat",
                "more",
                "--name",
                name,
                "--on",
                address,
            ),
            *("--vectors", "glove", "--tokenizer", "word", "--shards", str(MANY), "--check-queries", "50"),
            *("--least-coverage", "0", "--index", "PCAR8,IVF8,PQ4x4fs", "--recall", "0.5"),
        ],
        "env": {**os.environ, "REFAUG_HOME": str(home)},
        "stdout": subprocess.PIPE,
        "stderr": subprocess.PIPE,
        "text": True,
    }


def test_the_command_goes_on_after_kill_9(machines, places, expected):
    command_of = command(places, "command", machines.address)
    with subprocess.Popen(**command_of) as first:
        for line in first.stderr:
            if line.startswith("writing tables") and "done in" in line:
                first.kill()
    assert first.returncode == -signal.SIGKILL
    second = subprocess.run(**command_of, check=False, timeout=300)
    assert second.returncode == 0, second.stderr
    assert "writing tables" not in second.stderr
    name, version = places.indexes.resolve("command")
    assert_is(IndexManifest.read(places.indexes.folder(name, version)), expected)


def test_what_cannot_be_built_on_this_cluster_is_refused_at_once(cluster, places, monkeypatch):
    with pytest.raises(Usage, match="needs shards"):
        build_index(places, order_of("refused", 1), Silent(), cluster=cluster)
    with pytest.raises(Conflict, match="machines of 1 cores at most; a task wants 4"):
        build_index(places, order_of("refused", threads=4), Silent(), cluster=cluster)
    monkeypatch.setattr(shards_on_cluster, "software", lambda: {"numpy": "1.0"})
    with pytest.raises(Conflict, match=r"other versions: numpy \d.* in place of 1\.0"):
        build_index(places, order_of("refused"), Silent(), cluster=cluster)
    assert places.indexes.current("refused") is None
