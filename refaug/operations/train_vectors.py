"""Training word vectors."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, ClassVar

from refaug.core.options.declaring import Argument, Doc, Ge, Gt, Le, Length, Size
from refaug.core.options.decoding import made_of
from refaug.operations.operation import Cluster, Name, Operation, Seed, Threads

if TYPE_CHECKING:
    from refaug.indexer.vectors.training import VectorsOrder


@dataclass(frozen=True, kw_only=True)
class TrainVectors(Operation):
    """Train GloVe vectors on logs; the same logs, settings and seed give the same bits, interrupted or not."""

    operation: ClassVar[str] = "vectors"
    runs: ClassVar[str] = "refaug.service.jobs.kinds.training:vectors_job"

    logs: Annotated[tuple[Name, ...], Length(1, 100), Argument("LOG…"), Doc("Logs whose turns are learned from.")]
    name: Annotated[Name | None, Doc("Name of the vectors; by default that of the first log.")] = None
    dimensions: Annotated[int, Ge(1), Le(10_000), Doc("Length of a vector.")] = 200
    epochs: Annotated[int, Ge(1), Le(10_000), Doc("How often all co-occurrences are gone through.")] = 25
    window: Annotated[int, Ge(1), Le(255), Doc("Words to each side that count as neighbours.")] = 15
    min_count: Annotated[int, Ge(1), Le(1_000_000), Doc("Rarer words get no vector.")] = 5
    max_words: Annotated[int, Ge(2), Le(100_000_000), Doc("At most this many words get one, the most frequent.")] = (
        400_000
    )
    x_max: Annotated[float, Gt(0), Doc("From this co-occurrence on, all weigh the same.")] = 100.0
    alpha: Annotated[float, Gt(0), Doc("How fast the weight grows up to there.")] = 0.75
    learning_rate: Annotated[float, Gt(0), Doc("Of AdaGrad, at the start.")] = 0.05
    tokenizer: Annotated[
        str | None, Length(1, 200), Doc("Tokenizer whose words they are; by default what suits the logs' language.")
    ] = None
    seed: Annotated[Seed, Doc("Another seed, other vectors.")] = 1
    threads: Threads = None
    memory: Annotated[int, Size(), Doc("Memory to count words in, such as 512MiB or 2GiB.")] = 1 << 30
    on: Annotated[
        Cluster,
        Doc("Count words and neighbours on a cluster of Ray: HOST:PORT, auto on one of its machines, or local."),
    ] = None
    publish: Annotated[bool, Doc("Let them be what their name stands for from now on.")] = True
    again: Annotated[bool, Doc("Train even if the published vectors were made of exactly this.")] = False

    @property
    def vectors_name(self) -> str:
        """The vectors that are trained."""
        return self.name or self.logs[0]

    def order(self, *, threads: int | None, tokenizer: str | None) -> VectorsOrder:
        """Return it as vectors are trained; the tokenizer as the face has found it."""
        from refaug.indexer.vectors.cooccurrence import CooccurrenceSettings  # noqa: PLC0415  compiles
        from refaug.indexer.vectors.glove import GloveSettings  # noqa: PLC0415
        from refaug.indexer.vectors.training import VectorsOrder  # noqa: PLC0415

        return VectorsOrder(
            name=self.vectors_name,
            logs=self.logs,
            tokenizer=tokenizer,
            min_count=self.min_count,
            max_words=self.max_words,
            cooccurrence=CooccurrenceSettings(window=self.window, memory_bytes=self.memory),
            glove=made_of(GloveSettings, self, threads=threads),
            publish=self.publish,
        )

    def resources(self) -> tuple[str, ...]:
        """Return the vectors."""
        return (f"vectors/{self.vectors_name}",)
