"""References, scores and agreement with people from a cluster: byte for byte those of one process."""

from __future__ import annotations

import os
import signal
import threading
from contextlib import nullcontext

import orjson
import pytest
from cluster_builds import processes_titled
from cluster_items import ITEMS, home_with_items
from cluster_shards import processes_of_shards, until
from refusals import refusing

from refaug.cli.main import main
from refaug.core.errors import Conflict, Interrupted
from refaug.core.progress import Silent
from refaug.extras.cluster import node_requirements
from refaug.extras.cluster.connection import Cluster
from refaug.extras.cluster.references import PACKAGES, cluster_references
from refaug.scoring.augmentation import augment
from refaug.scoring.items import read_items
from refaug.scoring.metric_setup.scoring_steps import open_index_and_rater
from refaug.scoring.settings import AugmentSettings

RATED = AugmentSettings(gold="rated", show_excluded=2)
QUICK = ("--draws", "100", "--json")
NAMES = ("--index", "chat", "--rater", "tiny", "--threads", "1")


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    folder = tmp_path_factory.mktemp("references")
    return home_with_items(folder, folder / "items.jsonl")


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
        ("sets", "references", "--show-excluded", "2", "--gold", "rated"),
        pytest.param(("score", "-m", "upsilon-bleu", "-m", "bleu", *QUICK), marks=pytest.mark.faults),
        pytest.param(("agreement", "-m", "upsilon-bleu", "-m", "bleu", *QUICK), marks=pytest.mark.slow),
    ],
    ids=["references", "score", "agreement"],
)
def test_commands_print_on_a_cluster_what_they_print_in_one_process(machines, home, items, capsys, command):
    words = 2 if command[0] == "sets" else 1
    name, options = command[:words], command[words:]
    results = []
    for where in ((), ("--on", machines.address)):
        code = main(["--home", str(home.home), "--quiet", *name, str(items), *options, *NAMES, *where])
        results.append((code, *capsys.readouterr()))
    alone, spread = results
    assert alone[0] == 0
    assert spread == alone
    assert alone[1].count("retrieved") > ITEMS if name[0] == "sets" else orjson.loads(alone[1])
    assert left_in(home) == []


class Stopped(Exception):
    """Raised where the work is to stop."""


class AfterFirst(Silent):
    """Calls a function when the first block is finished; machines that are checked before are not counted."""

    def __init__(self, then):
        self._then, self.seen, self._counts_items = then, 0, False

    def stage(self, name, total=None, unit=""):
        self._counts_items = unit == "items"

    def advance(self, amount):
        if not self._counts_items:
            return
        self.seen += amount
        if amount and self.seen == amount:
            self._then()


def found_on(cluster, home, items, progress):
    with cluster_references(nullcontext(cluster), home, "chat", "tiny", RATED, 1, progress) as references:
        return list(references.augment(read_items(items), progress))


def keys_of_tasks(monkeypatch):
    """The keys of the blocks that become tasks of a cluster from now on."""
    submitted, run = [], Cluster.run

    def counting(self, function, arguments, **options):
        def noted():
            for one in arguments:
                submitted.append(one["key"])
                yield one

        return run(self, function, noted(), **options)

    monkeypatch.setattr(Cluster, "run", counting)
    return submitted


@pytest.mark.slow
def test_a_stopped_command_goes_on_from_finished_blocks(cluster, home, items, expected, monkeypatch):
    def stop():
        raise Stopped

    with pytest.raises(Stopped):
        found_on(cluster, home, items, AfterFirst(stop))
    (left,) = left_in(home)
    finished = {path.stem for path in (home.cache / left).glob("*.jsonl")}
    assert finished
    submitted = keys_of_tasks(monkeypatch)
    progress = AfterFirst(lambda: None)
    assert found_on(cluster, home, items, progress) == expected
    assert progress.seen == ITEMS
    assert finished.isdisjoint(submitted)
    assert len(finished) + len(submitted) == 2
    assert left_in(home) == []


class InterruptedWhileScoring(Silent):
    """Stops the command when it has found all references and computes scores, and the cluster is free."""

    def __init__(self):
        self.is_connected = self.asking = None

    def stage(self, name, total=None, unit=""):
        if name.startswith("score "):
            import ray  # noqa: PLC0415  it reads the token when it is imported

            self.is_connected = ray.is_initialized()
            self.asking = [thread.name for thread in threading.enumerate() if thread.name == "collect"]
            until(lambda: not processes_of_shards())
            raise KeyboardInterrupt


@pytest.mark.faults
@pytest.mark.parametrize("name", ["score", "meta"])
def test_a_command_stopped_while_it_scores_goes_on_without_a_task(machines, home, items, capsys, monkeypatch, name):
    command = ["--home", str(home.home), "--quiet", name, str(items), "-m", "upsilon-bleu", *QUICK, *NAMES]
    assert main(command) == 0
    alone = capsys.readouterr()
    progress = InterruptedWhileScoring()
    with monkeypatch.context() as stopped:
        stopped.setattr(f"refaug.cli.scores.{name}.display_progress", lambda **_: nullcontext(progress))
        assert main([*command, "--on", machines.address]) == Interrupted.exit_code
    assert (progress.is_connected, progress.asking) == (False, [])
    stopped_output = capsys.readouterr()
    assert stopped_output.out == ""
    assert "the same command goes on where it stopped" in stopped_output.err
    (left,) = left_in(home)
    assert len(list((home.cache / left).glob("*.jsonl"))) == 2
    submitted = keys_of_tasks(monkeypatch)
    assert main([*command, "--on", machines.address]) == 0
    assert capsys.readouterr() == alone
    assert submitted == []
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
    there = node_requirements.versions_of(PACKAGES)
    monkeypatch.setattr(node_requirements, "versions_of", lambda _: {**there, "torch": "1.0"})
    with refusing(Conflict, "torch", there["torch"], "1.0"):
        found_on(cluster, home, items, Silent())
    assert left_in(home) == []
