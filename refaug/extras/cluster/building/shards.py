"""The stages of a sharded build as tasks of a cluster, and what one process does between them.

The stages, their marks and their files are those of `refaug.indexer.building.sharding`, so a build may begin on one
machine and go on on a cluster, or the other way round. This process reads no log: it numbers the words of all shards,
sums their counts and marks what is finished.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from refaug.core.artefacts.build_stages import Stages
from refaug.core.errors import Usage
from refaug.core.files import remove_tree
from refaug.core.kernels.kernel import frozen
from refaug.core.progress import Progress
from refaug.extras.cluster.building import tasks
from refaug.extras.cluster.building.tasks import CODED, ClusterBuild, LogPiece, WordStatistics
from refaug.extras.cluster.connection import Cluster, TaskCall
from refaug.extras.cluster.node_requirements import require_alike
from refaug.indexer.bm25.scores import Bm25Statistics
from refaug.indexer.building import segment_stages, sharding
from refaug.indexer.building.order import IndexOrder, scratch_of
from refaug.indexer.building.plan import shard_memory
from refaug.indexer.columns import map_array
from refaug.indexer.index_folders import Places
from refaug.indexer.manifest import PACKAGES, RecallCheck, SegmentInfo, software
from refaug.indexer.search.segments import EXTRA_WORDS

PROCESS: Final = 250_000_000  # bytes of a task's process with its modules and compiled kernels, as measured
_ROWS_A_PIECE: Final = 1_000_000
_TRAINING: Final = "training, comparing, writing postings"


def _always(_order: IndexOrder) -> bool:
    return True


def _is_checked(order: IndexOrder) -> bool:
    return order.check_queries > 0


_STEPS: Final[Mapping[str, Callable[[IndexOrder], bool]]] = {  # of a build, and whether an order wants them
    "grouping": _always,
    "writing tables": _always,
    "reading words": _always,
    "numbering words": _always,
    "encoding": lambda order: order.encoder is not None,
    "drawing queries": _is_checked,
    "counting words": lambda order: order.bm25 is not None,
    _TRAINING: _always,
    "adding vectors": _always,
    "measuring recall": _is_checked,
    "hashing": _always,
}


@dataclass(frozen=True, eq=False, kw_only=True)
class TaskGroup:
    """Stages of one kind, a task each, that do not need each other."""

    stages: Sequence[str]
    task: Callable[..., Mapping[str, Any]]
    arguments: Sequence[Mapping[str, Any]]
    threads: int | None = None  # None: as many as the order has for a task
    memory: int = 0
    complete: Callable[[int, dict[str, Any]], Mapping[str, Any]] | None = (
        None  # the facts of a stage, before they are stored
    )
    shared: Callable[[], Any] | None = None  # makes a value for all tasks, if any is to run


class ClusterStages:
    """The stages of one build, whose tasks run on a cluster."""

    def __init__(self, cluster: Cluster, build: ClusterBuild, stages: Stages, progress: Progress) -> None:
        self._cluster, self._build, self._stages, self._progress = cluster, build, stages, progress

    @property
    def scratch(self) -> Path:
        """The folder of what tasks write that is no part of the index."""
        return self._build.scratch

    @property
    def table_memory(self) -> int:
        """The memory of a task that writes a table."""
        return PROCESS + self._build.order.memory

    def most_cores(self, memory: int) -> int:
        """Return the cores of the largest machine with so much memory for a task."""
        self._cluster.require_room(1, memory)
        return max(node.cores for node in self._cluster.nodes() if node.has(1, memory))

    def run(self, what: str, group: TaskGroup) -> list[dict[str, Any]]:
        """Run the unfinished stages of a group, a task each, and return the facts of all."""
        return self.run_together(what, group)[0]

    def run_together(self, what: str, *groups: TaskGroup) -> list[list[dict[str, Any]]]:
        """Run the unfinished stages of groups side by side, those of the first ones first; return the facts of each."""
        stages = [(group, number) for group in groups for number in range(len(group.stages))]
        lacking = [(group, number) for group, number in stages if self._stages.lacks(group.stages[number])]
        if lacking:
            calls = self._calls(lacking)
            self._begin(what, len(stages))
            self._progress.advance(len(stages) - len(lacking))
            for place, facts in self._cluster.run_calls(calls, look=self._look):
                (group, number), seconds = lacking[place], facts.pop("seconds")
                facts_stored = facts if group.complete is None else group.complete(number, facts)
                self._stages.record(group.stages[number], facts_stored, seconds)
                self._progress.advance(1)
        return [[self._stages.facts(name) for name in group.stages] for group in groups]

    def _calls(self, lacking: Sequence[tuple[TaskGroup, int]]) -> list[TaskCall]:
        """Return the calls of stages; what all tasks of a group share is made before."""
        groups = {group.task: group for group, _ in lacking}
        values = {
            task: self._cluster.share(group.shared()) for task, group in groups.items() if group.shared is not None
        }
        return [
            TaskCall(
                function=group.task,
                arguments={"build": self._build, **group.arguments[number]},
                threads=group.threads or self._build.order.threads,
                memory=group.memory,
                shared=values.get(group.task),
            )
            for group, number in lacking
        ]

    def _begin(self, what: str, count: int) -> None:
        """Show what is done by so many tasks, and which step it is of the whole build."""
        order, machines = self._build.order, len(self._cluster.nodes())
        steps = [step for step, is_wanted in _STEPS.items() if is_wanted(order)]
        self._progress.stage(
            f"{what} on {machines} machines, step {steps.index(what) + 1} of {len(steps)}", count, "tasks"
        )

    def _look(self) -> None:
        """Let the progress raise where the work is to stop."""
        self._progress.advance(0)

    def results(self, what: str, task: Callable[..., Any], arguments: Sequence[Mapping[str, Any]]) -> Iterator[Any]:
        """Yield the results of tasks that are no stage, as they come."""
        self._begin(what, len(arguments))
        calls = [{"build": self._build, **of_task} for of_task in arguments]
        for _, result in self._cluster.run(task, calls, threads=self._build.order.threads, look=self._look):
            self._progress.advance(1)
            yield result


@contextmanager
def build_on(
    cluster: Cluster, places: Places, order: IndexOrder, work: segment_stages.SegmentWork
) -> Iterator[ClusterStages]:
    """Prepare a build's folder for tasks, check that all machines see it, and remove at the end what is no result."""
    if order.shards < 2:
        raise Usage(
            "a build on a cluster needs shards, which its machines build side by side",
            remedy="--shards with a multiple of the machines' number",
        )
    cluster.require_room(order.threads, PROCESS + order.memory)
    scratch = scratch_of(places.cache, work.stages)
    require_alike(cluster, scratch, PACKAGES, work.progress)
    build = ClusterBuild(
        places=places,
        order=order,
        folder=work.stages.folder.resolve(),
        scratch=scratch,
        fingerprint=work.material.fingerprint(),
        software=software(),
    )
    yield ClusterStages(cluster, build, work.stages, work.progress)
    remove_tree(scratch)


def make_shards_on(runner: ClusterStages, build: segment_stages.SegmentWork, shards: int) -> list[SegmentInfo]:
    """Build the shards of a version on a cluster; finished stages are not repeated."""
    filled = _tables(runner, build, shards)
    tables = {shard.number: dict(shard.table) for shard in filled}
    words = _words(runner, build, filled)
    if build.material.encoder is not None:
        runner.run("encoding", _of_shards("encode", tasks.encode_shard, filled))
    table, of_words = sharding.sums_of(list(tables.values())), sharding.sums_of(words)
    plan = build.stages.run("plan", lambda: segment_stages.plan_storage(build, table, of_words))
    memory = PROCESS + shard_memory(segment_stages.contents_of(build, table, of_words), plan["factory"], shards)
    with_vector = _vectors_and_postings(runner, build, filled, tables, plan, memory)
    return sharding.infos_of(filled, plan, [facts["extra_words"] for facts in words], with_vector)


def _of_shards(
    stage: str,
    task: Callable[..., Mapping[str, Any]],
    filled: Sequence[sharding.Shard],
    *,
    memory: int = 0,
    **arguments: Any,
) -> TaskGroup:
    """Return a stage of each of these shards, with further arguments that are the same for all."""
    return TaskGroup(
        stages=[f"{stage}-{shard.number}" for shard in filled],
        task=task,
        arguments=[{"number": shard.number, **arguments} for shard in filled],
        memory=memory,
    )


def _tables(runner: ClusterStages, work: segment_stages.SegmentWork, shards: int) -> list[sharding.Shard]:
    """Group the rows of the logs by shard, then write the table of each; one without utterances is left out."""
    names = [f"table-{number}" for number in range(shards)]
    pieces = list[LogPiece]()
    grouped = list[dict[str, Any]]()
    if any(work.stages.lacks(name) for name in names):
        pieces = tasks.pieces_of(work.material.logs, _ROWS_A_PIECE)
        group_names = [f"group-{piece.log}-{piece.part.sha256[:16]}-{piece.number}" for piece in pieces]
        for name, piece in zip(group_names, pieces, strict=True):
            if not (runner.scratch / piece.folder).is_dir():
                work.stages.forget(name)
        of_pieces = [{"piece": piece} for piece in pieces]
        grouped = runner.run("grouping", TaskGroup(stages=group_names, task=tasks.group_rows, arguments=of_pieces))
    of_shard = [
        {
            "number": number,
            "pieces": [(piece, facts["rows"][number]) for piece, facts in zip(pieces, grouped, strict=True)],
            "erased": work.erased,
        }
        for number in range(shards)
    ]
    tables = runner.run(
        "writing tables",
        TaskGroup(stages=names, task=tasks.write_table, arguments=of_shard, memory=runner.table_memory),
    )
    remove_tree(runner.scratch / "grouped")
    filled = list[sharding.Shard]()
    for number, table in enumerate(tables):
        shard = sharding.work_on_shard(work, number, shards)
        if table["utterances"]:
            filled.append(sharding.Shard(number, shard, table))
        else:
            remove_tree(shard.path)
    sharding.require_any(filled, work.material)
    return filled


def _words(
    runner: ClusterStages, work: segment_stages.SegmentWork, filled: Sequence[sharding.Shard]
) -> list[Mapping[str, Any]]:
    """Code the texts of the shards side by side, then give all words the numbers that one machine would give them."""
    scratch = runner.scratch
    uncoded = [shard for shard in filled if work.stages.lacks(f"words-{shard.number}")]
    for shard in uncoded:
        if not (scratch / CODED / str(shard.number) / EXTRA_WORDS).exists():
            work.stages.forget(f"code-{shard.number}")
    coding = _of_shards("code", tasks.code_shard, uncoded)
    texts = [
        {**of_shard, "texts": shard.rows + shard.table["pairs"]}
        for shard, of_shard in zip(uncoded, coding.arguments, strict=True)
    ]
    coded = runner.run("reading words", replace(coding, arguments=texts))
    facts_of = {shard.number: facts for shard, facts in zip(uncoded, coded, strict=True)}
    arguments, numbered = list[dict[str, Any]](), dict[int, int]()
    for shard in filled:
        before = len(work.vocabulary)
        if shard.number in facts_of:
            local: NDArray[np.uint64] = map_array(scratch / CODED / str(shard.number) / EXTRA_WORDS, np.uint64)
            codes = work.vocabulary.extend(local)
            numbered[shard.number] = len(work.vocabulary) - before
        else:
            codes = work.vocabulary.extend(map_array(shard.work.path / EXTRA_WORDS, np.uint64))
        new_words = work.vocabulary.extra_words(before)
        arguments.append({"number": shard.number, "codes": codes, "new_words": new_words})

    def complete(place: int, _facts: dict[str, Any]) -> Mapping[str, Any]:
        number = filled[place].number
        counts = {name: fact for name, fact in facts_of[number].items() if name != "seconds"}
        return {**counts, "extra_words": numbered[number]}

    numbering = replace(_of_shards("words", tasks.number_words, filled), arguments=arguments, complete=complete)
    words = runner.run("numbering words", numbering)
    remove_tree(scratch / CODED)
    segment_stages.require_coverage(work, sharding.sums_of(words))
    return list(words)


def _vectors_and_postings(
    runner: ClusterStages,
    work: segment_stages.SegmentWork,
    filled: Sequence[sharding.Shard],
    tables: Mapping[int, Any],
    plan: Mapping[str, Any],
    memory: int,
) -> list[int]:
    """Train one index on a machine, and add the vectors of all shards; a task of vectors takes so much memory.

    While one machine trains, the others compare the vectors with the check's queries and write BM25's postings.
    """
    if work.check_queries:
        drawing = TaskGroup(stages=["queries"], task=tasks.draw_check, arguments=[{"tables": tables}])
        runner.run("drawing queries", drawing)
    threads = runner.most_cores(memory)
    training = TaskGroup(
        stages=["train"],
        task=tasks.train_index,
        arguments=[{"tables": tables, "factory": plan["factory"], "threads": threads}],
        threads=threads,
        memory=memory,
    )
    unfinished = [shard for shard in filled if work.stages.lacks(f"vectors-{shard.number}")]
    comparing = _of_shards(
        "neighbours", tasks.compare_shard, unfinished if work.check_queries else [], memory=memory, tables=tables
    )
    runner.run_together(_TRAINING, training, comparing, *_postings(runner, work, filled))
    adding = _of_shards("vectors", tasks.add_shard, filled, memory=memory, tables=tables, depth=plan["depth"])
    added = runner.run("adding vectors", adding)
    remove_tree(work.stages.folder / sharding.TRAINED_FOLDER)
    return [facts["with_vector"] for facts in added]


def _postings(
    runner: ClusterStages, work: segment_stages.SegmentWork, filled: Sequence[sharding.Shard]
) -> list[TaskGroup]:
    """Return the stages that write the postings of each shard with the words counted in all."""
    if work.bm25 is None:
        return []
    words = len(work.vocabulary)
    writing = _of_shards("bm25", tasks.add_shard_bm25, filled, words=words)
    return [replace(writing, shared=partial(_counted, runner, filled, words))]


def _counted(runner: ClusterStages, filled: Sequence[sharding.Shard], words: int) -> WordStatistics:
    """Return the statistics of all shards together, summed as they come."""
    df = [np.zeros(words, np.int32), np.zeros(words, np.int32)]
    documents, tokens = [0, 0], [0, 0]
    arguments = [{"number": shard.number, "words": words} for shard in filled]
    for counted in runner.results("counting words", tasks.count_words, arguments):
        for place, of_shard in enumerate((counted["counted"].utterances, counted["counted"].responses)):
            df[place] += of_shard.df
            documents[place] += of_shard.document_count
            tokens[place] += counted["tokens"][place]
    utterances, responses = (
        Bm25Statistics(
            document_count=documents[place],
            average_length=tokens[place] / documents[place] if tokens[place] else 1.0,
            df=frozen(df[place]),
        )
        for place in (0, 1)
    )
    return WordStatistics(utterances=utterances, responses=responses)


def measure_recall_on(
    runner: ClusterStages, work: segment_stages.SegmentWork, infos: Sequence[SegmentInfo]
) -> tuple[tuple[SegmentInfo, ...], RecallCheck | None]:
    """Measure the recall of all shards together on a machine of the cluster."""
    if not (work.stages.folder / segment_stages.CHECK_QUERIES).exists():
        return tuple(infos), None
    checking = TaskGroup(stages=["check"], task=tasks.check_recall, arguments=[{"infos": list(infos)}])
    facts = runner.run("measuring recall", checking)[0]
    chosen = tuple(replace(info, effort=effort) for info, effort in zip(infos, facts["efforts"], strict=True))
    return chosen, RecallCheck(**facts["check"])


def describe_on(runner: ClusterStages, infos: Sequence[SegmentInfo]) -> dict[str, Mapping[str, Any]]:
    """Return size and hash of the files of all shards."""
    numbers = [{"number": int(info.folder.rpartition("/")[2])} for info in infos]
    described = dict[str, Mapping[str, Any]]()
    for of_shard in runner.results("hashing", tasks.describe_shard, numbers):
        described |= of_shard
    return described


def build_segments_on(
    cluster: Cluster, places: Places, order: IndexOrder, work: segment_stages.SegmentWork
) -> tuple[tuple[SegmentInfo, ...], RecallCheck | None, Mapping[str, Mapping[str, Any]]]:
    """Build the shards of a new index on a cluster, measure their recall, and describe their files."""
    with build_on(cluster, places, order, work) as runner:
        infos, check = measure_recall_on(runner, work, make_shards_on(runner, work, order.shards))
        return infos, check, describe_on(runner, infos)
