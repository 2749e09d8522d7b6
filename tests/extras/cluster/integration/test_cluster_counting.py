"""Words and co-occurrences counted on a cluster: the bytes of one machine, for any number of tasks and any order."""

from __future__ import annotations

import os
import signal

import pyarrow.parquet as pq
import pytest
from cluster_builds import processes_titled, small_home
from cluster_ingests import Steps
from refusals import refusing

from refaug.core.errors import Conflict, Interrupted
from refaug.core.files import read_json
from refaug.core.progress import Silent
from refaug.extras.cluster import node_requirements, vectors
from refaug.indexer.vectors import training
from refaug.indexer.vectors.cooccurrence import CooccurrenceSettings
from refaug.indexer.vectors.glove import GloveSettings
from refaug.indexer.vectors.training import VectorsOrder, train_vectors
from refaug.logs.part_files import PartWriter

COUNTS = ("rows.npy", "columns.npy", "values.npy", "cooccurrences.json", "words.txt", "counts.npy")


@pytest.fixture(scope="module")
def places(tmp_path_factory):
    add = PartWriter.add

    def add_in_groups(self, rows):
        for start in range(0, rows.num_rows, 200):
            add(self, rows.slice(start, 200))

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(PartWriter, "add", add_in_groups)
        home = small_home(tmp_path_factory.mktemp("counting") / "home")
    sizes = [pq.ParquetFile(path).num_row_groups for path in (home.logs / "chat").glob("part-*.parquet")]
    assert sorted(sizes) == [5, 15]
    return home


def order_of(name, memory=1 << 16):
    return VectorsOrder(
        name=name,
        logs=("chat", "more"),
        tokenizer="word",
        min_count=3,
        cooccurrence=CooccurrenceSettings(window=5, memory_bytes=memory),
        glove=GloveSettings(dimensions=8, epochs=1, threads=1),
    )


def counted(places, name, cluster=None, progress=None, memory=1 << 16):
    """Train, and return the files of both counts, the details of the vectors and their hash."""
    found = {}
    train_glove = training.train_glove

    def noted(cooccurrences, settings, folder, *further):
        found.update({name: (folder.parent / name).read_bytes() for name in COUNTS})
        return train_glove(cooccurrences, settings, folder, *further)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(training, "train_glove", noted)
        trained = train_vectors(places, order_of(name, memory), progress or Silent(), again=True, cluster=cluster)
    manifest = read_json(places.vectors.folder(name, trained.version) / "manifest.json")
    details = {name: fact for name, fact in manifest["details"].items() if name not in ("at", "seconds")}
    return found, details, trained.sha256


@pytest.fixture(scope="module")
def expected(places):
    return counted(places, "alone")


@pytest.mark.parametrize(
    "rows", [pytest.param(200, marks=pytest.mark.slow), 700, pytest.param(1_000_000, marks=pytest.mark.slow)]
)
def test_any_number_of_tasks_counts_the_bytes_of_one_machine(cluster, places, expected, rows, monkeypatch):
    monkeypatch.setattr(vectors, "_ROWS_A_PIECE", rows)
    monkeypatch.setattr(vectors, "_BYTES_AN_ENTRY", 100)  # ranges of 655 entries
    steps = Steps()
    assert counted(places, f"of-{rows}", cluster, steps) == expected
    assert steps.stages[:4] == ["checking machines", "counting words", "co-occurrences", "adding up co-occurrences"]
    assert len(expected[0]["values.npy"]) > 4 * 655 * 3
    assert not list(places.cache.glob(f"vectors-of-{rows}-*"))


@pytest.mark.slow
def test_killed_and_stopped_counts_go_on(cluster, places, expected, monkeypatch):
    monkeypatch.setattr(vectors, "_ROWS_A_PIECE", 400)
    killed = []

    def kill_then_stop(stage):
        for process, title in processes_titled("count_words", "count_neighbours", "add_up"):
            os.kill(process, signal.SIGKILL)
            killed.append(title)
        if stage == "co-occurrences":
            raise Interrupted("stopped")

    with pytest.raises(Interrupted):
        counted(places, "stopped", cluster, Steps(kill_then_stop))
    assert killed
    (scratch,) = places.cache.glob("vectors-stopped-*/cluster")
    finished = list(scratch.glob("neighbours-??????"))
    assert finished
    before = {path.name: path.stat().st_mtime_ns for path in finished}
    seen = {}

    class Noted(Steps):
        def stage(self, name, total=None, unit=""):
            super().stage(name, total, unit)
            if name.startswith("adding up"):
                seen.update({path: (scratch / path).stat().st_mtime_ns for path in before})

    assert counted(places, "stopped", cluster, Noted()) == expected
    assert seen == before


@pytest.mark.slow
def test_a_machine_with_other_software_is_named(cluster, places, monkeypatch):
    monkeypatch.setattr(node_requirements, "versions_of", lambda _: {"numpy": "1.0"})
    with refusing(Conflict, "numpy", "1.0"):
        counted(places, "other", cluster)
