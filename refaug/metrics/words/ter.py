"""TER of sacrebleu: the fewest edits to any reference, over the mean length of the references.

Edits and lengths are added for a corpus. An empty reference among others is left out, as by all metrics here; sacrebleu
would count it as a reference of no words, which an empty reply would match.

sacrebleu normalises references twice, so that with `norm=yes` their "it's" becomes "it ' s" and a reply's becomes "it
's". A score under its name has to equal its score, so this module does the same.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence

import numpy as np

from refaug.core.errors import Usage
from refaug.metrics import single_reference
from refaug.metrics.base import Floats, Indexes, Level, Metric, Prepared, Problem, References
from refaug.metrics.costs import LARGEST_TER_TABLE
from refaug.metrics.metric_info import MetricInfo


class Ter(Metric):
    """Edits and shifts for each word of a reference."""

    columns = ("edits", "reference_length")

    def __init__(self, info: MetricInfo, settings: Mapping[str, str]) -> None:
        if settings["asian"] == "yes" and settings["norm"] == "no" and settings["punct"] == "yes":
            raise Usage(f"{info.name}: asian=yes changes nothing by itself", remedy="give norm=yes or punct=no with it")
        library = single_reference.import_library("sacrebleu.metrics.lib_ter", package="sacrebleu", metric=info.name)
        self._edits = library.translation_edit_rate
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
        """Return the package's."""
        return single_reference.package_version("sacrebleu")

    def read(self, texts: Sequence[str]) -> list[list[str]]:
        """Return words, as Tercom splits them."""
        return [self._tokenizer(text.rstrip()).split() for text in texts]

    def read_references(self, texts: Sequence[str]) -> list[list[str]]:
        """Return words, normalised twice."""
        return self.read([self._tokenizer(text.rstrip()) for text in texts])

    def prepare(self, references: Sequence[References]) -> single_reference.PreparedTexts:
        """Split every distinct text once."""
        return single_reference.prepare_texts(
            references, gold_only=self._gold_only, read=self.read_references, usable=single_reference.non_empty
        )

    def statistics(
        self, replies: Sequence[str], prepared: Prepared, reply_places: Indexes, item_places: Indexes
    ) -> Floats:
        """Return edits to the closest reference, and the mean length of all references."""
        assert isinstance(prepared, single_reference.PreparedTexts)
        distinct = single_reference.DistinctTexts.of(replies)
        words = self.read(distinct.texts)
        pairs = single_reference.TextPairs.of(
            prepared.offsets, prepared.numbers, distinct.numbers[reply_places], item_places
        )
        edits = [
            self._edits(words[h], prepared.read[t])[0]
            if len(words[h]) * len(prepared.read[t]) <= LARGEST_TER_TABLE
            else np.nan
            for h, t in zip(pairs.reply.tolist(), pairs.reference.tolist(), strict=True)
        ]
        lengths = np.array([len(tokens) for tokens in prepared.read], dtype=np.float64)
        fewest = -pairs.combine(-np.array(edits, dtype=np.float64), "best")
        return np.stack([fewest, pairs.combine(lengths[pairs.reference], "mean")], axis=-1)

    def undefined(self) -> Problem:
        """Only texts that are too long have no score."""
        return single_reference.TOO_LONG

    def values(self, sums: Floats, level: Level) -> Floats:
        """Return edits per word."""
        del level
        with np.errstate(invalid="ignore", divide="ignore"):
            return np.asarray(sums[..., 0] / sums[..., 1])


@functools.cache
def _tokenizer(**settings: bool) -> Callable[[str], str]:
    """Return the shared tokenizer for each choice of settings, since sacrebleu's tokenizer caches what it has seen."""
    library = single_reference.import_library("sacrebleu.tokenizers.tokenizer_ter", package="sacrebleu", metric="ter")
    tokenizer: Callable[[str], str] = library.TercomTokenizer(**settings)
    return tokenizer
