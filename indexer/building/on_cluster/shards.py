"""The stages of a sharded build as tasks of a cluster, and what one process does between them.

The stages, their marks and their files are those of `refaug.indexer.building.sharding`, so a build may begin on one
machine and go on on a cluster, or the other way round. This process reads no log: it numbers the words of all shards,
sums their counts and marks what is finished.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from refaug.core.artefacts.build_stages import Stages
from refaug.core.cluster.connection import Cluster
from refaug.core.errors import Conflict, Usage
from refaug.core.files import make_folder, remove_tree, unique_suffix
from refaug.core.kernels import frozen
from refaug.core.progress import Progress
from refaug.indexer.bm25.index import Bm25Statistics
from refaug.indexer.building.cluster_plan import PROCESS, vector_memory
from refaug.indexer.building.on_cluster import tasks
from refaug.indexer.building.on_cluster.tasks import CODED, ClusterBuild, LogPiece, WordStatistics
from refaug.indexer.building.order import IndexOrder
from refaug.indexer.building.plan import Option
from refaug.indexer.building.segment_stages import (
    CHECK_QUERIES,
    SegmentWork,
    contents_of,
    plan_storage,
    require_coverage,
)
from refaug.indexer.building.sharding import (
    TRAINED_FOLDER,
    Shard,
    infos_of,
    require_any,
    sums_of,
    work_on_shard,
)
from refaug.indexer.columns import map_array
from refaug.indexer.index_folders import Places
from refaug.indexer.installed_software import software
from refaug.indexer.manifest import RecallCheck, SegmentInfo
from refaug.indexer.search.segments import EXTRA_WORDS

_ROWS_A_PIECE: Final = 1_000_000
_ROWS_A_TASK: Final = 50_000  # with fewer, starting the task takes longer than its work


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

    def run(
        self,
        names: Sequence[str],
        what: str,
        task: Callable[..., Mapping[str, Any]],
        arguments: Sequence[Mapping[str, Any]],
        *,
        memory: int = 0,
        complete: Callable[[int, dict[str, Any]], Mapping[str, Any]] | None = None,
        shared: Callable[[], Any] | None = None,
    ) -> list[dict[str, Any]]:
        """Run the unfinished ones of these stages, a task each, and return the facts of all.

        `complete` may add to the facts of a task before they are stored; `shared` makes a value for all tasks, if any
        is to run.
        """
        lacking = [number for number, name in enumerate(names) if self._stages.lacks(name)]
        if lacking:
            self._progress.stage(f"{what} on {len(self._cluster.nodes())} machines", len(names), "tasks")
            self._progress.advance(len(names) - len(lacking))
            value = None if shared is None else self._cluster.share(shared())
            calls = [{"build": self._build, **arguments[number]} for number in lacking]
            tasks_run = self._cluster.run(
                task, calls, threads=self._build.order.threads, memory=memory, shared=value, look=self._look
            )
            for place, facts in tasks_run:
                number, seconds = lacking[place], facts.pop("seconds")
                self._stages.record(names[number], facts if complete is None else complete(number, facts), seconds)
                self._progress.advance(1)
        return [self._stages.facts(name) for name in names]

    def _look(self) -> None:
        """Let the progress raise where the work is to stop."""
        self._progress.advance(0)

    def results(self, what: str, task: Callable[..., Any], arguments: Sequence[Mapping[str, Any]]) -> Iterator[Any]:
        """Yield the results of tasks that are no stage, as they come."""
        self._progress.stage(f"{what} on {len(self._cluster.nodes())} machines", len(arguments), "tasks")
        calls = [{"build": self._build, **of_task} for of_task in arguments]
        for _, result in self._cluster.run(task, calls, threads=self._build.order.threads, look=self._look):
            self._progress.advance(1)
            yield result


@contextmanager
def build_on(cluster: Cluster, places: Places, order: IndexOrder, work: SegmentWork) -> Iterator[ClusterStages]:
    """Prepare a build's folder for tasks, check that all machines see it, and remove at the end what is no result."""
    if order.shards < 2:
        raise Usage(
            "a build on a cluster needs shards, which its machines build side by side",
            remedy="--shards with a multiple of the machines' number",
        )
    cluster.require_room(order.threads, PROCESS + order.memory)
    scratch = scratch_of(places, work.stages)
    _require_alike(cluster, scratch)
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


def scratch_of(places: Places, stages: Stages) -> Path:
    """Return the folder of what tasks write that is no part of the index."""
    return places.cache.resolve() / f"cluster-{stages.folder.name}"


def _require_alike(cluster: Cluster, scratch: Path) -> None:
    """Refuse a cluster with a machine that does not see the home, or has other software."""
    make_folder(scratch)
    mark = scratch / f"seen-{unique_suffix()}"
    mark.touch()
    here = software()
    for node, seen in cluster.on_every_node(tasks.look, mark=mark):
        if not seen.has_folder:
            raise Conflict(
                f"the machine {node.address} of the cluster does not see {scratch.parent}",
                remedy="mount REFAUG_HOME under the same path on all machines",
            )
        if seen.software != here:
            raise Conflict(
                f"the machine {node.address} of the cluster has other versions: "
                f"{tasks.difference(here, seen.software)}",
                remedy="install the versions of requirements.lock on all machines",
            )
    mark.unlink()


def make_shards_on(runner: ClusterStages, build: SegmentWork, shards: int) -> list[SegmentInfo]:
    """Build the shards of a version on a cluster; finished stages are not repeated."""
    filled = _tables(runner, build, shards)
    tables = {shard.number: dict(shard.table) for shard in filled}
    words = _words(runner, build, filled)
    if build.material.encoder is not None:
        numbered = [{"number": shard.number} for shard in filled]
        runner.run(_names("encode", filled), "encoding", tasks.encode_shard, numbered)
    table, of_words = sums_of(list(tables.values())), sums_of(words)
    plan = build.stages.run("plan", lambda: plan_storage(build, table, of_words))
    option = Option(**{name: value for name, value in plan.items() if name != "seconds"})
    memory = PROCESS + vector_memory(contents_of(build, table, of_words), option, shards)
    with_vector = _vectors(runner, build, filled, tables, plan, memory)
    _bm25(runner, build, filled)
    return infos_of(filled, plan, [facts["extra_words"] for facts in words], with_vector)


def _names(stage: str, filled: Sequence[Shard]) -> list[str]:
    return [f"{stage}-{shard.number}" for shard in filled]


def _tables(runner: ClusterStages, work: SegmentWork, shards: int) -> list[Shard]:
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
        grouped = runner.run(group_names, "grouping", tasks.group_rows, [{"piece": piece} for piece in pieces])
    of_shard = [
        {
            "number": number,
            "pieces": [(piece, facts["rows"][number]) for piece, facts in zip(pieces, grouped, strict=True)],
            "erased": work.erased,
        }
        for number in range(shards)
    ]
    tables = runner.run(names, "writing tables", tasks.write_table, of_shard, memory=runner.table_memory)
    remove_tree(runner.scratch / "grouped")
    filled = list[Shard]()
    for number, table in enumerate(tables):
        shard = work_on_shard(work, number, shards)
        if table["utterances"]:
            filled.append(Shard(number, shard, table))
        else:
            remove_tree(shard.path)
    require_any(filled, work.material)
    return filled


def _words(runner: ClusterStages, work: SegmentWork, filled: Sequence[Shard]) -> list[Mapping[str, Any]]:
    """Code the texts of the shards side by side, then give all words the numbers that one machine would give them."""
    names, scratch = _names("words", filled), runner.scratch
    uncoded = [shard for shard in filled if work.stages.lacks(f"words-{shard.number}")]
    for shard in uncoded:
        if not (scratch / CODED / str(shard.number) / EXTRA_WORDS).exists():
            work.stages.forget(f"code-{shard.number}")
    coded = runner.run(
        _names("code", uncoded),
        "reading words",
        tasks.code_shard,
        [{"number": shard.number, "texts": shard.rows + shard.table["pairs"]} for shard in uncoded],
    )
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

    words = runner.run(names, "numbering words", tasks.number_words, arguments, complete=complete)
    remove_tree(scratch / CODED)
    require_coverage(work, sums_of(words))
    return list(words)


def _vectors(
    runner: ClusterStages,
    work: SegmentWork,
    filled: Sequence[Shard],
    tables: Mapping[int, Any],
    plan: Mapping[str, Any],
    memory: int,
) -> list[int]:
    """Train one index on a machine, then add the vectors of the shards side by side; a task takes so much memory."""
    of_training = [{"tables": tables, "factory": plan["factory"]}]
    runner.run(["train"], "training", tasks.train_index, of_training, memory=memory)
    if work.check_queries:
        runner.run(["queries"], "drawing queries", tasks.draw_check, [{"tables": tables}])
    arguments = [{"number": shard.number, "tables": tables, "depth": plan["depth"]} for shard in filled]
    added = runner.run(_names("vectors", filled), "adding vectors", tasks.add_shard, arguments, memory=memory)
    remove_tree(work.stages.folder / TRAINED_FOLDER)
    return [facts["with_vector"] for facts in added]


def _bm25(runner: ClusterStages, work: SegmentWork, filled: Sequence[Shard]) -> None:
    """Count the words of all shards, then build the postings of each with the sums."""
    if work.bm25 is None:
        return
    words = len(work.vocabulary)
    runner.run(
        _names("bm25", filled),
        "writing BM25 postings",
        tasks.add_shard_bm25,
        [{"number": shard.number, "words": words} for shard in filled],
        shared=partial(_counted, runner, filled, words),
    )


def _counted(runner: ClusterStages, filled: Sequence[Shard], words: int) -> WordStatistics:
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
    runner: ClusterStages, work: SegmentWork, infos: Sequence[SegmentInfo]
) -> tuple[tuple[SegmentInfo, ...], RecallCheck | None]:
    """Measure the recall of all shards together on a machine of the cluster."""
    if not (work.stages.folder / CHECK_QUERIES).exists():
        return tuple(infos), None
    facts = runner.run(["check"], "measuring recall", tasks.check_recall, [{"infos": list(infos)}])[0]
    chosen = tuple(replace(info, effort=effort) for info, effort in zip(infos, facts["efforts"], strict=True))
    return chosen, RecallCheck(**facts["check"])


def describe_on(runner: ClusterStages, infos: Sequence[SegmentInfo]) -> dict[str, Mapping[str, Any]]:
    """Return size and hash of the files of all shards."""
    numbers = [{"number": int(info.folder.rpartition("/")[2])} for info in infos]
    described = dict[str, Mapping[str, Any]]()
    for of_shard in runner.results("hashing", tasks.describe_shard, numbers):
        described |= of_shard
    return described
