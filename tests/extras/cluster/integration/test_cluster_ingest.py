"""Logs read on a cluster: file by file those of one machine, with the same report and rejects, whatever dies."""

from __future__ import annotations

import gzip
import os
import random
import signal
import subprocess
from dataclasses import asdict, replace

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from cluster_builds import processes_titled
from cluster_ingests import Files, Steps, command_of, content_of, first_lines
from cluster_machines import add_machine, machine_with_its_own_disk
from integration.reference import dialogue_log, join, message, stored
from refusals import refusing

from refaug.core.errors import BadInput, Conflict, Interrupted, NoSource, TooManyBadRows
from refaug.core.progress import Silent
from refaug.extras.cluster import ingest as cluster_ingest
from refaug.extras.cluster import node_requirements
from refaug.logs import part_files
from refaug.logs.ingest import order as staging
from refaug.logs.ingest import reply_trees
from refaug.logs.ingest.cleaning import CleaningSettings
from refaug.logs.ingest.ingest import ingest
from refaug.logs.ingest.order import IngestOrder
from refaug.logs.store import StoredLog


@pytest.fixture(autouse=True)
def small_pieces(monkeypatch):
    """Blocks of some lines, pieces of two blocks, parts of some hundred pairs, trees in many tasks."""
    monkeypatch.setattr(IngestOrder, "block_bytes", 3_000)
    monkeypatch.setattr(cluster_ingest, "BLOCKS_A_PIECE", 2)
    monkeypatch.setattr(part_files, "ROWS_A_GROUP", 40)
    monkeypatch.setattr(staging, "PART_BYTES", 20_000)
    monkeypatch.setattr(cluster_ingest, "_MESSAGES_A_SLICE", 150)
    monkeypatch.setattr(cluster_ingest, "_RANGES_A_TASK", 2)
    monkeypatch.setattr(reply_trees, "MESSAGES_A_CHUNK", 40)


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    return Files.write(tmp_path_factory.mktemp("sources"))


def order_of(files, folder, log="chat", **settings):
    return IngestOrder(
        sources=tuple(map(str, files.all)),
        log=log,
        memory=256 << 20,
        workers=0,
        cleaning=CleaningSettings(flood_cap=5),
        rejects=folder / "rejects.jsonl",
        **settings,
    )


def ingested(folder, files, cluster=None, progress=None, **settings):
    """Ingest into a home of its own; return what came of it: the report, the log's files, the rejects."""
    folder.mkdir(exist_ok=True)
    order = order_of(files, folder, **settings)
    report = asdict(ingest(order, folder / "logs", progress or Silent(), cluster=cluster))
    return content_of(folder, report)


@pytest.fixture(scope="module")
def expected(files, tmp_path_factory):
    """What one machine makes of the files."""
    with pytest.MonkeyPatch.context() as patch:
        small_pieces.__wrapped__(patch)
        return ingested(tmp_path_factory.mktemp("alone"), files)


def test_a_cluster_makes_the_log_that_one_machine_makes(cluster, files, tmp_path, expected):
    steps = Steps()
    assert ingested(tmp_path / "home", files, cluster, steps) == expected
    report = expected.report
    assert report["counts"]["bad:json"] == 1
    assert report["counts"]["dropped:flood"] > 5
    assert report["counts"]["trees:replies"] > 300
    assert len(report["problems"]) >= 2
    assert len([name for name in expected.files if name.startswith("part-")]) > 5
    assert steps.stages == [
        "checking machines",
        "fingerprints",
        "reading",
        "linking messages",
        "sorting messages by tree",
        "joining message trees",
        "writing pairs",
        "checking ids",
        "publishing",
    ]


def test_trees_whose_messages_lie_in_several_files_are_those_of_the_reference(cluster, tmp_path):
    rng = random.Random(4)
    messages = [message(f"m{n}", f"m{rng.randrange(n)}" if n % 7 else None) for n in range(300)]
    messages += [message("m3", "m1"), message("loop", "pool"), message("pool", "loop"), message("lost", "nowhere")]
    rng.shuffle(messages)
    pairs, counts, _ = join(messages)
    for number in range(3):
        lines = [m.line for m in messages[100 * number : 100 * number + (100 if number < 2 else 200)]]
        (tmp_path / f"{number}.jsonl").write_bytes(b"\n".join(lines))
    order = IngestOrder(sources=(str(tmp_path),), log="chat", memory=256 << 20)
    report = ingest(order, tmp_path / "home" / "logs", Silent(), cluster=cluster)
    assert stored(StoredLog.open(tmp_path / "home" / "logs", "chat")) == pairs
    assert {name: report.counts.get(f"trees:{name}", 0) for name in counts} == counts


@pytest.mark.slow
def test_killed_tasks_are_done_again(cluster, files, tmp_path, expected):
    killed = []

    def kill(stage):
        for process, title in processes_titled("read_piece", "sort_slice", "pair_trees"):
            os.kill(process, signal.SIGKILL)
            killed.append((stage, title))

    assert ingested(tmp_path / "home", files, cluster, Steps(kill)) == expected
    assert killed


@pytest.mark.slow
def test_an_ingest_survives_the_death_of_a_machine(cluster, machines, files, tmp_path, expected):
    gone = []

    def remove(stage):
        if stage == "sorting messages by tree":
            gone.append(stage)
            machines.remove_node(machines.worker_nodes.copy().pop(), allow_graceful=False)

    try:
        assert ingested(tmp_path / "home", files, cluster, Steps(remove)) == expected
    finally:
        add_machine(machines)
    assert gone == ["sorting messages by tree"]


@pytest.mark.parametrize("at", ["reading", pytest.param("sorting messages by tree", marks=pytest.mark.slow)])
def test_a_stopped_ingest_goes_on_from_what_is_finished(cluster, files, tmp_path, expected, at, monkeypatch):
    def stop(stage):
        if stage == at:
            raise Interrupted("stopped")

    with pytest.raises(Interrupted):
        ingested(tmp_path / "home", files, cluster, Steps(stop))
    (staged,) = (tmp_path / "home" / "logs" / "chat").glob(".staging-*")
    finished = {path.name for path in staged.glob("read-*" if at == "reading" else "by-tree-*")}
    assert finished
    run = []
    for_cluster = cluster_ingest.IngestCluster._run

    def noted(self, task, calls, **settings):
        run.extend(call["target"] for call in calls if "target" in call)
        run.extend(cluster_ingest.piece_file(c["piece"].unit, c["piece"].number) for c in calls if "piece" in c)
        return for_cluster(self, task, calls, **settings)

    monkeypatch.setattr(cluster_ingest.IngestCluster, "_run", noted)
    again = ingested(tmp_path / "home", files, cluster)
    assert again == replace(expected, report={**expected.report, "resumed": True})
    cut = {name for name in finished if not name.startswith(files.uncut)}
    assert run
    assert not cut & set(run)


@pytest.mark.slow
def test_an_ingest_begun_on_a_cluster_goes_on_alone(cluster, files, tmp_path, expected):
    def stop(stage):
        if stage == "joining message trees":
            raise Interrupted("stopped")

    with pytest.raises(Interrupted):
        ingested(tmp_path / "home", files, cluster, Steps(stop))
    again = ingested(tmp_path / "home", files)
    assert again == replace(expected, report={**expected.report, "resumed": True})


def test_errors_are_those_of_one_machine(cluster, tmp_path):
    bad = tmp_path / "bad.jsonl"
    bad.write_bytes(dialogue_log(1, 200)[0] + b'{"half": \n' * 60)
    for error, settings in ((TooManyBadRows, {}), (BadInput, {"stop_on_error": True})):
        order = IngestOrder(sources=(str(bad),), log="chat", workers=0, **settings)
        messages = []
        for machine in (None, cluster):
            with pytest.raises(error) as raised:
                ingest(order, tmp_path / f"logs-{machine is None}", Silent(), cluster=machine)
            messages.append((raised.value.message, raised.value.remedy))
        assert messages[0] == messages[1]
        assert f"{bad}, line 201: not JSON" in messages[0][0]


@pytest.mark.slow
def test_a_damaged_file_gives_what_can_be_read_of_it(cluster, tmp_path):
    packed = gzip.compress(dialogue_log(2, 400)[0])
    (tmp_path / "cut.jsonl.gz").write_bytes(packed[: len(packed) // 2])
    (tmp_path / "row.parquet").write_bytes(b"")
    table = pa.table({"utterance": [f"what of {n}" for n in range(300)], "response": [f"that {n}" for n in range(300)]})
    pq.write_table(table, tmp_path / "row.parquet", row_group_size=50)
    contents = []
    for machine in (None, cluster):
        order = IngestOrder(sources=(str(tmp_path / "cut.jsonl.gz"), str(tmp_path / "row.parquet")), log="chat")
        folder = tmp_path / f"home-{machine is None}"
        report = asdict(ingest(order, folder / "logs", Silent(), cluster=machine))
        contents.append(content_of(folder, report))
    assert contents[0] == contents[1]
    assert "breaks off" in contents[0].report["problems"][0]


@pytest.mark.slow
@pytest.mark.machine
def test_a_machine_that_does_not_see_a_source_is_named(cluster, machines, tmp_path):
    (tmp_path / "there").mkdir()
    source = tmp_path / "there" / "log.jsonl"
    source.write_bytes(dialogue_log(1, 5)[0])
    order = IngestOrder(sources=(str(source),), log="chat")
    with machine_with_its_own_disk(cluster, machines.address, source.parent), pytest.raises(NoSource) as refused:
        ingest(order, tmp_path / "logs", Silent(), cluster=cluster)
    assert refused.value.message.startswith("the machine ")
    assert refused.value.message.endswith(f"of the cluster cannot read {source} (No such file or directory)")
    assert "mount the sources' folder" in refused.value.remedy


def test_a_source_that_a_task_cannot_read_is_named_with_the_machine(cluster, tmp_path):
    source = {"path": tmp_path / "gone.jsonl", "name": "gone.jsonl", "encoding": "auto", "block_bytes": 3_000}
    with refusing(NoSource, "gone.jsonl", "machine"):
        list(cluster.run(cluster_ingest.examine, [source]))


def test_a_machine_with_other_software_is_named(cluster, tmp_path, monkeypatch):
    source = tmp_path / "log.jsonl"
    source.write_bytes(dialogue_log(1, 5)[0])
    monkeypatch.setattr(node_requirements, "versions_of", lambda _: {"duckdb": "1.0"})
    with refusing(Conflict, "duckdb", "1.0"):
        ingest(IngestOrder(sources=(str(source),), log="chat"), tmp_path / "logs", Silent(), cluster=cluster)
    assert not list((tmp_path / "logs" / "chat").glob("*.aside"))


@pytest.mark.faults
def test_the_command_goes_on_after_kill_9(machines, tmp_path):
    source = tmp_path / "log.jsonl"
    source.write_bytes(dialogue_log(1, 40_000)[0])
    alone = subprocess.run(**command_of(tmp_path / "alone", source), check=False, timeout=300)
    assert alone.returncode == 0, alone.stderr
    command = command_of(tmp_path / "home", source, "--on", machines.address)
    with subprocess.Popen(**command) as first:
        while not list((tmp_path / "home").glob("logs/chat/.staging-*/read-*.arrow")):
            assert first.poll() is None, first.stderr.read()
        first.kill()
    assert first.returncode == -signal.SIGKILL
    second = subprocess.run(**command, check=False, timeout=300)
    assert second.returncode == 0, second.stderr
    assert first_lines(second.stdout)["resumed"]
    assert content_of(tmp_path / "home").files == content_of(tmp_path / "alone").files
