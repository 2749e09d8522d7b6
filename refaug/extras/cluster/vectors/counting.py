"""Counting words and co-occurrences by tasks of a cluster, whose results this process adds up.

Counts of words are added here; co-occurrences are added by tasks, each for a range of rows, and only strung together
here. Results lie in files of a folder beside the stages, so that a stopped count goes on from finished tasks.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import pyarrow as pa

from refaug.core.artefacts.build_stages import Stages
from refaug.core.files import make_folder, remove_tree
from refaug.core.progress import Progress
from refaug.core.text.tokenizer_base import Tokenizer
from refaug.extras.cluster.connection import Cluster
from refaug.extras.cluster.node_requirements import require_alike
from refaug.extras.cluster.vectors import tasks
from refaug.extras.cluster.vectors.tasks import CountOrder, LogTurns
from refaug.indexer.manifest import PACKAGES, software
from refaug.indexer.tokens.tokens import WordCounts, hash_words
from refaug.indexer.tokens.vocabulary import save_tokenizer
from refaug.indexer.vectors.cooccurrence import Cooccurrences, CooccurrenceSettings, Entries, write_cooccurrences
from refaug.indexer.vectors.coverage import CoverageCounter
from refaug.logs.store import StoredLog

_ROWS_A_PIECE: Final = 1_000_000
_PROCESS: Final = 250 << 20  # bytes of a task's process with its modules and compiled kernels
_A_WORD: Final = 50  # bytes of a count for each word of the vocabulary
_BYTES_AN_ENTRY: Final = 32  # of adding up
_ENTRIES_AT_ONCE: Final = 1 << 20


@dataclass(frozen=True, kw_only=True)
class ClusterCounting:
    """Both counts of some logs, as tasks of a cluster."""

    cluster: Cluster
    order: CountOrder
    pieces: Sequence[LogTurns]
    progress: Progress

    @classmethod
    def begin(
        cls,
        cluster: Cluster,
        stages: Stages,
        logs: Sequence[StoredLog],
        tokenizer: Tokenizer,
        settings: CooccurrenceSettings,
        progress: Progress,
    ) -> ClusterCounting:
        """Make the folder of the tasks' results, and check that all machines see it and have the same software."""
        scratch = stages.folder.resolve() / "cluster"
        make_folder(scratch)
        save_tokenizer(tokenizer, scratch)
        order = CountOrder(
            logs=logs[0].folder.parent.resolve(),
            scratch=scratch,
            tokenizer=tokenizer.name,
            tokenizer_version=tokenizer.version,
            settings=settings,
            software=software(),
        )
        counting = cls(cluster=cluster, order=order, pieces=tasks.pieces_of(logs, _ROWS_A_PIECE), progress=progress)
        cluster.require_room(1, counting._memory(0))
        require_alike(cluster, scratch, PACKAGES, progress)
        return counting

    def count_words(self, counts: WordCounts) -> None:
        """Count the words of all pieces, and add them up."""
        targets = [f"words-{number:06}.arrow" for number in range(len(self.pieces))]
        calls = [{"piece": piece, "target": target} for piece, target in zip(self.pieces, targets, strict=True)]
        self._run("counting words", tasks.count_words, calls, memory=_PROCESS)
        for target in targets:
            with pa.memory_map(str(self.order.scratch / target)) as file, pa.ipc.open_file(file) as reader:
                table = reader.read_all().combine_chunks()
                if table.num_rows:
                    counts.add_counts(table["word"].chunk(0), table["count"].to_numpy())
            self.progress.advance(0)

    def count_neighbours(self, words: Sequence[str], coverage: CoverageCounter, folder: Path) -> Cooccurrences:
        """Count the co-occurrences of all pieces, add them up, and write them as one machine does."""
        runs = [f"neighbours-{number:06}" for number in range(len(self.pieces))]
        calls = [{"piece": piece, "target": run} for piece, run in zip(self.pieces, runs, strict=True)]
        memory, hashes = self._memory(len(words)), hash_words(words)
        self._run("co-occurrences", tasks.count_neighbours, calls, memory=memory, shared=hashes)
        paths = [self.order.scratch / run for run in runs]
        for path in paths:
            coverage.add_facts(tasks.coverage_of_run(path))
        ranges = tasks.row_ranges(paths, len(words), max(1, self.order.settings.memory_bytes // _BYTES_AN_ENTRY))
        sums = [f"sums-{first:09}-{last:09}" for first, last in ranges]
        calls = [
            {"runs": runs, "first": first, "last": last, "target": target}
            for (first, last), target in zip(ranges, sums, strict=True)
        ]
        self._run("adding up co-occurrences", tasks.add_up, calls, memory=memory)
        return write_cooccurrences(self._entries(sums), len(words), self.order.settings, folder)

    def clear(self) -> None:
        """Remove what the tasks have written."""
        remove_tree(self.order.scratch)

    def _memory(self, words: int) -> int:
        return _PROCESS + self.order.settings.memory_bytes + _A_WORD * words

    def _entries(self, sums: Sequence[str]) -> Iterator[Entries]:
        for target in sums:
            yield from tasks.merged_entries(self.order.scratch / target, _ENTRIES_AT_ONCE)
            self.progress.advance(0)

    def _run(
        self,
        what: str,
        task: Callable[..., Any],
        calls: Sequence[Mapping[str, Any]],
        *,
        memory: int,
        shared: Any = None,
    ) -> None:
        """Run the tasks whose result is not there yet."""
        lacking = [
            {"order": self.order, **call} for call in calls if not (self.order.scratch / call["target"]).exists()
        ]
        self.progress.stage(f"{what} on {len(self.cluster.nodes())} machines", len(calls), "tasks")
        self.progress.advance(len(calls) - len(lacking))
        value = None if shared is None or not lacking else self.cluster.share(shared)
        done = self.cluster.run(task, lacking, memory=memory, shared=value, look=lambda: self.progress.advance(0))
        for _ in done:
            self.progress.advance(1)
