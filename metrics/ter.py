"""TER of sacrebleu: the fewest edits to any reference, over the mean length of the references.

Edits and lengths are added for a corpus. An empty reference among others is left out, as it is everywhere here;
sacrebleu would count it as one of no words, which an empty reply would match.

sacrebleu normalises references twice, so that with `norm=yes` their "it's" ends as "it ' s" and a reply's as "it 's". A
score under its name has to be its score: the same is done here.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Final

import numpy as np

from core.errors import Usage
from metrics.base import Floats, Indexes, Level, Metric, Prepared, Problem, References
from metrics.catalogue import MetricInfo
from metrics.several import (
    TOO_LONG,
    Distinct,
    Pairs,
    PreparedTexts,
    imported,
    non_empty,
    prepared_texts,
    with_version,
)

_LARGEST_TABLE: Final = 250_000  # 500 words with 500 take ten seconds, because of the shifts that are tried


class Ter(Metric):
    """Edits and shifts for each word of a reference."""

    columns = ("edits", "reference_length")

    def __init__(self, info: MetricInfo, settings: Mapping[str, str]) -> None:
        if settings["asian"] == "yes" and settings["norm"] == "no" and settings["punct"] == "yes":
            raise Usage(f"{info.name}: asian=yes changes nothing by itself", remedy="give norm=yes or punct=no with it")
        self._edits = imported("sacrebleu.metrics.lib_ter", package="sacrebleu", metric=info.name).translation_edit_rate
        self._tokenizer = _tokenizer(
            normalized=settings["norm"] == "yes",
            no_punct=settings["punct"] == "no",
            asian_support=settings["asian"] == "yes",
            case_sensitive=settings["case"] == "mixed",
        )
        self._gold_only = settings["refs"] == "gold"
        self.info = info
        self.settings = dict(settings)

    def versions(self) -> Mapping[str, str]:
        """The package's."""
        return with_version("sacrebleu")

    def read(self, texts: Sequence[str]) -> list[list[str]]:
        """Words, as Tercom splits them."""
        return [self._tokenizer(text.rstrip()).split() for text in texts]

    def read_references(self, texts: Sequence[str]) -> list[list[str]]:
        """The same, once more."""
        return self.read([self._tokenizer(text.rstrip()) for text in texts])

    def prepare(self, references: Sequence[References]) -> PreparedTexts:
        """Split every distinct text once."""
        return prepared_texts(references, gold_only=self._gold_only, read=self.read_references, usable=non_empty)

    def statistics(self, replies: Sequence[str], prepared: Prepared, reply: Indexes, item: Indexes) -> Floats:
        """Edits to the closest reference, and the mean length of all."""
        assert isinstance(prepared, PreparedTexts)
        distinct = Distinct.of(replies)
        words = self.read(distinct.texts)
        pairs = Pairs.of(prepared.offsets, prepared.numbers, distinct.numbers[reply], item)
        edits = [
            self._edits(words[h], prepared.read[t])[0]
            if len(words[h]) * len(prepared.read[t]) <= _LARGEST_TABLE
            else np.nan
            for h, t in zip(pairs.reply.tolist(), pairs.reference.tolist(), strict=True)
        ]
        lengths = np.array([len(tokens) for tokens in prepared.read], dtype=np.float64)
        fewest = -pairs.combined(-np.array(edits, dtype=np.float64), "best")
        return np.stack([fewest, pairs.combined(lengths[pairs.reference], "mean")], axis=-1)

    def undefined(self) -> Problem:
        """Only texts that are too long have no score."""
        return TOO_LONG

    def values(self, sums: Floats, level: Level) -> Floats:
        """Edits per word."""
        del level
        with np.errstate(invalid="ignore", divide="ignore"):
            return np.asarray(sums[..., 0] / sums[..., 1])


@functools.cache
def _tokenizer(**settings: bool) -> Callable[[str], str]:
    """One for each choice of settings: sacrebleu's keeps what it has seen, and itself with it."""
    library = imported("sacrebleu.tokenizers.tokenizer_ter", package="sacrebleu", metric="ter")
    tokenizer: Callable[[str], str] = library.TercomTokenizer(**settings)
    return tokenizer


def build(info: MetricInfo, settings: Mapping[str, str]) -> Ter:
    """Make one from checked settings."""
    return Ter(info, settings)
