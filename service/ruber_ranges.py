"""What counts as 0 and 1 of the parts of `ruber` with `norm=log`: two percentiles of what they give to pairs of a log.

The pairs are drawn from the log that an index was built from (`service.log_sample`). A part is measured once and its
percentiles are kept in `indexes/<name>/ranges/` (`service.kept`). One that looks at weighted references has them found
and weighed for the sample as for test items, without what is identical to the reply.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from math import isfinite
from pathlib import Path
from typing import Final, Self

import numpy as np

from core.errors import BadInput
from core.holding import Held
from core.items import BadItem
from core.progress import Progress, Silent
from core.records import Item, Origin
from core.text import normalise
from indexer.manifest import IndexManifest
from metrics.base import Metric, Problem, References
from metrics.catalogue import Uses
from metrics.ranges import Range
from metrics.ruber import Ranges, Ruber, part_values
from rater.rate import Rater
from service.augment import AugmentSettings, augment, provenance, provenance_details
from service.baseline import described
from service.cases import references_of
from service.kept import Question, keep, kept
from service.log_sample import live_segments, sample_items
from service.retrieval import open_index, places_of
from service.settings import Settings

PAIRS: Final = 5_000
LEAST: Final = 200  # pairs; of fewer, the percentiles are the values of one or two of them
SEED: Final = 1
FOLDER: Final = "ranges"  # among the versions of an index, and no name that a version can have
_KIND: Final = "range"
_FORMAT_VERSION: Final = 1
_PERCENTILES: Final = (0.01, 0.99)  # the least and the most, without the few that stand far out


@dataclass(frozen=True, kw_only=True)
class _Answer:
    """Two percentiles, over how many pairs with a score, out of how many."""

    low: float
    high: float
    scored: int
    drawn: int

    @classmethod
    def read(cls, path: Path, question: Question) -> Self | None:
        """What was kept; None where there is nothing, or nothing to be trusted: then it is measured again."""
        found = kept(path, question, ("low", "high", "scored", "drawn"))
        if found is None:
            return None
        low, high, scored, drawn = found.values()
        if type(low) is not float or type(high) is not float or type(scored) is not int or type(drawn) is not int:
            return None
        is_sound = isfinite(low) and isfinite(high) and low <= high and LEAST <= scored <= drawn <= PAIRS
        return cls(low=low, high=high, scored=scored, drawn=drawn) if is_sound else None

    def written(self) -> dict[str, object]:
        """As it is kept."""
        return {"low": self.low, "high": self.high, "scored": self.scored, "drawn": self.drawn}


class LogSample:
    """Pairs of the log that an index was built from, drawn and given references when something is measured on them.

    Those of parts that look at weighted ones are found in the same index, as `augmenting` says, and weighed by whom
    `weigher` gives, who is only asked for then.
    """

    def __init__(
        self,
        settings: Settings,
        index: str,
        augmenting: AugmentSettings,
        weigher: Callable[[], Rater],
        *,
        threads: int | None = None,
        progress: Progress | None = None,
    ) -> None:
        self._settings, self.index, self._augmenting, self._asked_weigher = settings, index, augmenting, weigher
        self._threads, self._progress = threads, progress or Silent()
        self._drawn: list[Item] | None = None
        self._said_how_few = False

    def measured(self, metric: Ruber) -> tuple[Ranges, dict[str, str]]:
        """The ranges of both parts, and what signatures say of where they are from."""
        indexes = places_of(self._settings).indexes
        with indexes.open(self.index) as held:
            manifest = IndexManifest.read(held.folder)
            folder = indexes.folder(held.name, FOLDER)
            referenced, unreferenced = (
                self._answer(part, held, manifest, folder) for part in (metric.referenced, metric.unreferenced)
            )
            where = f"index {held.name}@{held.version}"
            self._say_how_few(referenced.drawn, where)
        ranges = Ranges(
            referenced=_range(referenced, metric.referenced, where),
            unreferenced=_range(unreferenced, metric.unreferenced, where),
        )
        said = {"index": manifest.id[:12], "pairs": str(referenced.drawn), "seed": str(SEED), **self._excluded}
        if metric.info.uses is Uses.WEIGHTED:
            said |= {key: value for key, value in self._found_by.items() if key != "index"}
        return ranges, {f"sample-{key}": value for key, value in said.items()}

    def _answer(self, part: Metric, held: Held, manifest: IndexManifest, folder: Path) -> _Answer:
        by: object = dict(self._found_by) if part.info.uses is Uses.WEIGHTED else "gold"
        asked = {"metric": described(part), "references": by, "pairs": PAIRS, "seed": SEED, **self._excluded}
        question = Question(kind=_KIND, format_version=_FORMAT_VERSION, index=manifest.id, asked=asked)
        path = folder / question.file
        answer = _Answer.read(path, question)
        if answer is None:
            items = self._items(held, manifest)
            if part.info.uses is Uses.WEIGHTED:
                items = self._augmented
            self._progress.stage(f"range of {part.name}", len(items), "items")
            answer = _percentiles(part, items)
            keep(path, question, answer.written(), "the range of a part of ruber", self._progress)
        return answer

    def _items(self, held: Held, manifest: IndexManifest) -> list[Item]:
        """The drawn items, each with two replies."""
        if self._drawn is None:
            self._progress.stage("sample of the log")
            rules = self._augmenting.search.rules([log.name for log in manifest.logs]) if self._excluded else None
            self._drawn = sample_items(live_segments(held, manifest, rules), PAIRS // 2, SEED)
            _require_enough(self._drawn, f"index {held.name}@{held.version}")
        return self._drawn

    @cached_property
    def _excluded(self) -> dict[str, str]:
        """What nothing is drawn from, as no reference is taken from it: logs that hold the test set, say."""
        search = self._augmenting.search
        said = {
            "after": search.after.isoformat() if search.after else "",
            "before": search.before.isoformat() if search.before else "",
            "exclude-logs": ",".join(search.exclude_logs),
        }
        return {key: value for key, value in said.items() if value}

    @cached_property
    def _found_by(self) -> dict[str, str]:
        """What can change the weighted references of the sample."""
        with open_index(self._settings, self.index, threads=1) as index:
            said = provenance(index, self._weigher, self._augmenting)
            return {**said, **provenance_details(index, self._augmenting), "index": index.manifest.id[:12]}

    @cached_property
    def _weigher(self) -> Rater | None:
        return self._asked_weigher() if self._augmenting.needs_rater else None

    @cached_property
    def _augmented(self) -> list[Item]:
        """The items with the weighted references that the index has for them."""
        assert self._drawn is not None, "they are drawn first"
        with open_index(self._settings, self.index, threads=self._threads) as index:
            found = list(augment(self._drawn, index, self._weigher, self._augmenting, self._progress))
        return [one.item for one in found if not isinstance(one, BadItem)]

    def _say_how_few(self, drawn: int, where: str) -> None:
        if drawn < PAIRS and not self._said_how_few:
            self._said_how_few = True
            self._progress.warn(
                f"what counts as 0 and 1 of the parts of ruber is measured on {drawn:,} pairs, not {PAIRS:,}: {where} "
                "has no more utterances with responses of several dialogues"
            )


def _require_enough(items: Sequence[Item], where: str) -> None:
    if 2 * len(items) < LEAST:
        raise BadInput(
            f"{where} gives {2 * len(items):,} pairs of an utterance and a reply, and {LEAST} is the least that says "
            "what counts as 0 and 1 of the parts of ruber: they need utterances with responses of several dialogues",
            remedy="an index of a larger log, norm=none, or range-ref and range-unref as another index gave them",
        )


def _percentiles(part: Metric, items: Sequence[Item]) -> _Answer:
    """What the part gives to both replies of every item."""
    replies, references = list[str](), list[References]()
    for item in items:
        for reply in item.replies.values():
            found = references_of(_without(item, reply).pair.references, part.info.uses, item.pair.utterance)
            if not isinstance(found, Problem):
                replies.append(reply)
                references.append(found)
    values = part_values(part.for_set(references), replies, references, np.arange(len(replies), dtype=np.int64))
    known = values[np.isfinite(values)]
    drawn = sum(len(item.replies) for item in items)
    if len(known) < LEAST:
        raise BadInput(
            f"{part.name} has a score for {len(known):,} of {drawn:,} pairs of the log, and {LEAST} is the least that "
            "says what counts as 0 and 1 of it",
            remedy="check that word vectors and models are in the language of the log",
        )
    low, high = np.quantile(known, _PERCENTILES).tolist()
    return _Answer(low=low, high=high, scored=len(known), drawn=drawn)


def _without(item: Item, reply: str) -> Item:
    """The item without what was found for it and is the reply itself, which would tell nothing but that."""
    same = normalise(reply)
    left = tuple(one for one in item.pair.references if one.source is Origin.GOLD or normalise(one.text) != same)
    return replace(item, pair=replace(item.pair, references=left))


def _range(answer: _Answer, part: Metric, where: str) -> Range:
    return Range.of_ends(answer.low, answer.high, what=f"by {part.name}, nearly all pairs of {where}")
