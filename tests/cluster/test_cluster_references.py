"""References, scores and agreement with people from a cluster: byte for byte those of one process."""

from __future__ import annotations

import os
import re
import signal
from random import Random

import orjson
import pytest
from cluster_builds import WORDS, processes_titled, small_home
from cluster_shards import processes_of_shards
from indexes import build
from raters import tiny_rater

from refaug.cli.main import main
from refaug.core.artefacts.kinds import artefact_stores
from refaug.core.cluster import alike
from refaug.core.cluster.connection import Cluster
from refaug.core.errors import Conflict
from refaug.core.home import Settings
from refaug.core.progress import Silent
from refaug.evaluation.metric_setup.on_cluster.references import cluster_references
from refaug.evaluation.metric_setup.on_cluster.tasks import PACKAGES
from refaug.evaluation.metric_setup.scoring_steps import open_index_and_rater
from refaug.evaluation.scoring.augment_settings import AugmentSettings
from refaug.evaluation.scoring.augmentation import BLOCK_SIZE, augment
from refaug.evaluation.scoring.items import read_items
from refaug.indexer.building.plan import Limits
from refaug.logs.store import StoredLog
from refaug.rater.nn.checkpoint import save_rater

ITEMS = BLOCK_SIZE + 250
RATED = AugmentSettings(gold="rated", shown_excluded=2)
QUICK = ("--draws", "100", "--json")
NAMES = ("--index", "chat", "--rater", "tiny", "--threads", "1")


def line_of(random, number):
    said = [" ".join(random.choices(WORDS, k=random.choice((1, 3, 5)))) for _ in range(4)]
    row = {"id": f"i{number}", "utterance": said[0], "references": [said[1]], "replies": {"a": said[2], "b": said[3]}}
    if number % 5 == 0:
        row["references"].append({"text": "w1 w2", "weight": -0.25})
    if number % 7 == 0:
        row |= {"turns": [said[3], said[0]], "dialogue": "d1", "exclude": ["d2"], "time": "2027-06-01T09:00:00+00:00"}
    row["ratings"] = {"a": [random.choice((1, 2, 4, 5)), None], "b": [random.choice((1, 3)), 2]}
    return orjson.dumps(row)


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    """An index in three shards, a rater, and a file of items of which four are bad."""
    folder = tmp_path_factory.mktemp("references")
    places = small_home(folder / "home")
    build(places, shards=3, check_queries=50, limits=Limits(factory="PCAR8,IVF8,PQ4x4fs", recall=0.5))
    home = Settings(home=folder / "home", quiet=True)
    rater = tiny_rater(sorted({pair.utterance for pair in StoredLog.open(home.logs, "chat").pairs()}), folder)
    save_rater(folder / "tiny", rater.model, rater.tokenizer, temperature=2.5, languages=["en"], report={}, details={})
    raters = artefact_stores(home)["rater"]
    raters.publish("tiny", raters.add("tiny", folder / "tiny"))
    lines = [line_of(Random(number), number) for number in range(ITEMS)]
    lines[3], lines[BLOCK_SIZE + 5] = b"{", b'{"id": "i9", "utterance": "w1"}'
    lines[40], lines[41] = b'{"id": "none", "references": ["w1"]}', b'{"references": "w1"}'
    (folder / "items.jsonl").write_bytes(b"\n".join(lines) + b"\n")
    return home


@pytest.fixture(scope="module")
def items(home):
    return home.home.parent / "items.jsonl"


@pytest.fixture(scope="module")
def expected(home, items):
    """What one process finds."""
    with open_index_and_rater(home, "chat", "tiny", RATED, 1) as (index, rater):
        return list(augment(read_items(items), index, rater, RATED))


def left_in(home):
    return [path.name for path in home.cache.glob("references-*")]


@pytest.mark.parametrize(
    "command",
    [
        ("refs", "--show-excluded", "2", "--gold", "rated"),
        pytest.param(("score", "-m", "upsilon-bleu", "-m", "bleu", *QUICK), marks=pytest.mark.slow),
        pytest.param(("meta", "-m", "upsilon-bleu", "-m", "bleu", *QUICK), marks=pytest.mark.slow),
    ],
    ids=["refs", "score", "meta"],
)
def test_commands_print_on_a_cluster_what_they_print_in_one_process(machines, home, items, capsys, command):
    name, *options = command
    results = []
    for where in ((), ("--on", machines.address)):
        code = main(["--home", str(home.home), "--quiet", name, str(items), *options, *NAMES, *where])
        results.append((code, *capsys.readouterr()))
    alone, spread = results
    assert alone[0] == 0
    assert spread == alone
    assert alone[1].count("retrieved") > ITEMS if name == "refs" else orjson.loads(alone[1])
    assert left_in(home) == []


class Stopped(Exception):
    """Raised where the work is to stop."""


class AfterFirst(Silent):
    """Calls a function when the first block is finished."""

    def __init__(self, then):
        self._then, self.seen = then, 0

    def advance(self, amount):
        self.seen += amount
        if amount and self.seen == amount:
            self._then()


def found_on(cluster, home, items, progress):
    with cluster_references(cluster, home, "chat", "tiny", RATED, 1) as references:
        return list(references.augment(read_items(items), progress))


@pytest.mark.slow
def test_a_stopped_command_goes_on_from_finished_blocks(cluster, home, items, expected, monkeypatch):
    def stop():
        raise Stopped

    with pytest.raises(Stopped):
        found_on(cluster, home, items, AfterFirst(stop))
    (left,) = left_in(home)
    finished = {path.stem for path in (home.cache / left).glob("*.jsonl")}
    assert finished
    submitted, run = [], Cluster.run

    def counting(self, function, arguments, **options):
        def noted():
            for one in arguments:
                submitted.append(one["key"])
                yield one

        return run(self, function, noted(), **options)

    monkeypatch.setattr(Cluster, "run", counting)
    progress = AfterFirst(lambda: None)
    assert found_on(cluster, home, items, progress) == expected
    assert progress.seen == ITEMS
    assert finished.isdisjoint(submitted)
    assert len(finished) + len(submitted) == 2
    assert left_in(home) == []


@pytest.mark.slow
def test_killed_tasks_and_shards_change_nothing(cluster, home, items, expected):
    def kill():
        for process in [*[number for number, _ in processes_titled("augment_block")], *processes_of_shards()[:1]]:
            os.kill(process, signal.SIGKILL)

    progress = AfterFirst(kill)
    assert found_on(cluster, home, items, progress) == expected
    assert progress.seen == ITEMS


@pytest.mark.slow
def test_a_machine_with_other_versions_is_refused(cluster, home, items, monkeypatch):
    there = alike.versions_of(PACKAGES)
    monkeypatch.setattr(alike, "versions_of", lambda _: {**there, "torch": "1.0"})
    with pytest.raises(Conflict, match=re.escape(f"has other versions: torch {there['torch']} in place of 1.0 ")):
        found_on(cluster, home, items, Silent())
    assert left_in(home) == []
