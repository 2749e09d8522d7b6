"""Orders of jobs that train word vectors and raters."""

from __future__ import annotations

from typing import Final, Literal, Self

from pydantic import Field, model_validator

from refaug.service.jobs.orders.fields import (
    Count,
    Logs,
    Name,
    ResourceOptions,
    Seed,
    Text,
)

_RATER_THREADS: Final = (
    "threads; another number gives other bits; by default those of the setting `job_threads`, else one for each core "
    "that the job may use"
)


class RaterTrainJob(ResourceOptions):
    """Train a rater on utterances that got several responses."""

    kind: Literal["rater-train"] = Field(description="which job it is")
    logs: Logs = Field(description="logs that are learned from")
    rater: Name | None = Field(default=None, description="name of the rater; by default that of the first log")
    more_texts: list[Name] = Field(
        default_factory=list, description="further logs that teach pieces and vectors alone", max_length=100
    )
    network: Literal["nn", "cross"] = Field(
        default="nn", description="the Bi-GRU of the method, or a Transformer that reads turns, gold and reply at once"
    )
    preset: Literal["paper", "large", "base", "small"] = Field(
        default="base", description="sizes that go together; `paper` is one of nn, `large` one of cross"
    )
    positives: Count | None = Field(
        default=None, description="positive examples an epoch, drawn anew each time; by default all"
    )
    min_words: Count | None = Field(default=None, description="words of the shortest utterance of nn; by default four")
    min_chars: Count | None = Field(
        default=None, description="the same in characters, where words are not set apart by spaces"
    )
    negatives: Literal["random", "hard", "mixed"] | None = Field(
        default=None,
        description="responses to drawn utterances (default of nn), such as share rare words, or a mixture (default of "
        "cross)",
    )
    epochs: int | None = Field(default=None, description="at most so many; by default the preset's", ge=1, le=10_000)
    patience: int = Field(default=3, description="epochs without a lower validation loss that end it", ge=1, le=10_000)
    learning_rate: float | None = Field(default=None, description="of Adam; by default the preset's", gt=0, lt=1)
    decay: Literal["none", "linear"] | None = Field(
        default=None, description="how the learning rate falls; by default the preset's"
    )
    dropout: float | None = Field(
        default=None, description="share of an embedding's numbers left out; by default the preset's", ge=0, lt=1
    )
    batch: Count | None = Field(default=None, description="examples a batch; by default the preset's")
    accumulate: int = Field(default=1, description="batches a step", ge=1, le=10_000)
    max_tokens: int = Field(default=128, description="pieces of a text that are read", ge=1, le=10_000)
    validation_share: float = Field(default=0.05, description="of the utterances, never trained on", gt=0, lt=1)
    embeddings: Literal["vectors", "random"] | None = Field(
        default=None, description="what they start from; by default the preset's"
    )
    device: Literal["cpu", "cuda"] = Field(default="cpu", description="where it is trained")
    threads: int | None = Field(default=None, description=_RATER_THREADS, ge=1, le=1_024)
    on: Text | None = Field(
        default=None,
        description="train in several processes of a cluster of Ray: HOST:PORT, auto or local, as the server's "
        "settings name it",
    )
    workers: int | None = Field(
        default=None,
        description="with on: processes that share the batches of a step, each with one thread unless threads says "
        "otherwise; N of them train what one process trains with accumulate N",
        ge=1,
        le=1_024,
    )
    seed: Seed = Field(default=1, description="another seed, another network")
    publish: bool = Field(default=True, description="let it be what its name stands for from now on")

    @model_validator(mode="after")
    def _options_of_one_network(self) -> Self:
        if self.preset == ("large" if self.network == "nn" else "paper"):
            raise ValueError(f"network {self.network} has no preset {self.preset}")
        if self.network == "cross" and (self.min_words, self.min_chars, self.negatives == "hard") != (
            None,
            None,
            False,
        ):
            raise ValueError("network cross takes all utterances, with negatives random or mixed")
        return self

    @model_validator(mode="after")
    def _workers_of_a_cluster(self) -> Self:
        if (self.on is None) != (self.workers is None):
            raise ValueError("both or neither: on names the cluster, workers the number of processes that train")
        if self.batches_a_step % (self.workers or 1):
            raise ValueError(
                f"{self.workers} workers cannot share steps of {self.accumulate} batches evenly: accumulate is a "
                "multiple of workers"
            )
        return self

    @property
    def batches_a_step(self) -> int:
        """The batches of a step: one for each worker, unless the order says otherwise."""
        return self.workers or 1 if self.accumulate == 1 else self.accumulate
