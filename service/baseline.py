"""What a metric gives to replies that have nothing to do with their reference: the b of υ-anything.

From a log, or from an index, whose b is measured once for each metric and kept in `indexes/<name>/baselines/`: beside
the versions, which never change, and under a name made of what it is the answer to. So it is the same whoever measures
it, it stays when versions go, and it goes when the index does.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final, Literal, NamedTuple, Self

import numpy as np
import orjson
from numpy.typing import NDArray

from core.artefacts import MANIFEST, require_files
from core.engine import Engine
from core.errors import BadInput, Corrupt, StorageFull, Usage
from core.files import hold, make_folder, read_json, remove_asides, write_json
from core.holding import Held
from core.log_store import StoredLog
from core.progress import Progress, Silent
from core.versions import Versions
from indexer.manifest import IndexManifest
from indexer.ranking import Rows
from indexer.segments import Segment, open_segment
from metrics.base import Metric
from metrics.parameters import shortest
from metrics.signature import Signature
from metrics.specification import Specification, build
from metrics.upsilon import PREFIX, Upsilon, baseline

PAIRS: Final = 10_000
SEED: Final = 1
FOLDER: Final = "baselines"  # among the versions of an index, and no name that a version can have
_KIND: Final = "baseline"
_FORMAT_VERSION: Final = 1
_OF_SEVERAL: Final = ("refs", "multi")  # settings without a meaning for a single reference
_LARGEST: Final = 0.999  # as the catalogue has it: above, nothing is left that a score could say
_ROUNDS: Final = 20  # of drawing, where pairs of one dialogue come up and do not count


@dataclass(frozen=True, kw_only=True)
class Baseline:
    """The mean over random pairs, and all that made it."""

    specification: str  # the weighted form with this b
    metric: str
    b: float
    pairs: int
    seed: int
    kind: Literal["log", "index"]
    source: str  # the log, or name@version of the index
    source_pairs: int

    @property
    def parameter(self) -> str:
        """How a specification has it."""
        return f"b={_written(self.b)}"

    def as_json(self) -> dict[str, Any]:
        """As the command prints it."""
        return {
            "metric": self.metric,
            "b": self.b,
            "parameter": self.parameter,
            "specification": self.specification,
            "pairs": self.pairs,
            "seed": self.seed,
            self.kind: self.source,
            f"{self.kind}_pairs": self.source_pairs,
        }


def _written(b: float) -> str:
    """Seven digits are more than a sample of pairs can tell."""
    return shortest(round(b, 7))


def _asked(specification: Specification) -> Metric:
    metric = build(specification)
    if not (isinstance(metric, Upsilon) or metric.info.upsilon):
        raise Usage(
            f"{metric.name} has no υ form, so it needs no baseline", remedy="refaug metrics list has those that do"
        )
    return metric


def _with_b(specification: Specification, b: float) -> str:
    """The weighted form that a specification asks for, or is the base of."""
    given = [f"{key}={value}" for key, value in specification.given if key not in ("b", *_OF_SEVERAL)]
    return f"{PREFIX}{specification.name.removeprefix(PREFIX)}:{','.join([*given, f'b={_written(b)}'])}"


def _mean(metric: Metric, pairings: Sequence[tuple[str, str]], where: str) -> float:
    """The mean over pairs; BadInput where it leaves no room above it."""
    b = baseline(metric, [reply for reply, _ in pairings], [reference for _, reference in pairings])
    if b > _LARGEST:
        raise BadInput(
            f"random pairs of {where} score {b:.4g} by {metric.name}: a good reply cannot be told from any other",
            remedy="another metric, or texts that differ; or give b in the specification",
        )
    return b


# ── from a log ────────────────────────────────────────────────────────────────────────────────────────────────────


def baseline_of(
    specification: Specification, log: StoredLog, engine: Engine, *, pairs: int = PAIRS, seed: int = SEED
) -> Baseline:
    """Score responses of a log against responses of other dialogues, both drawn by the seed."""
    metric = _asked(specification)
    drawn = log.sample(2 * pairs, seed, engine)
    order = np.random.Generator(np.random.PCG64(seed)).permutation(len(drawn))
    half = len(drawn) // 2
    pairings = [
        (drawn[left].response, drawn[right].response)
        for left, right in zip(order[:half], order[half : 2 * half], strict=True)
        if drawn[left].dialogue != drawn[right].dialogue
    ]
    if not pairings:
        raise BadInput(
            f"log {log.manifest.name} has no two responses of different dialogues", remedy="ingest more dialogues first"
        )
    b = _mean(metric, pairings, f"log {log.manifest.name}")
    return Baseline(
        specification=_with_b(specification, b),
        metric=metric.name,
        b=b,
        pairs=len(pairings),
        seed=seed,
        kind="log",
        source=log.manifest.name,
        source_pairs=log.manifest.totals.get("pairs", 0),
    )


# ── from an index ─────────────────────────────────────────────────────────────────────────────────────────────────


def baseline_in(
    specification: Specification,
    indexes: Versions,
    index: str,
    *,
    pairs: int = PAIRS,
    seed: int = SEED,
    progress: Progress | None = None,
) -> Baseline:
    """Score responses of an index against those of other pairs and dialogues, or look up what came of it before."""
    metric = _asked(specification)
    found = _of_index(metric, indexes, index, pairs, seed, progress or Silent())
    return Baseline(
        specification=_with_b(specification, found.b),
        metric=metric.name,
        b=found.b,
        pairs=found.drawn,
        seed=seed,
        kind="index",
        source=found.called,
        source_pairs=found.manifest.pairs,
    )


def based_on(metric: Metric, indexes: Versions, index: str, progress: Progress | None = None) -> Metric:
    """The metric; a weighted form that was asked for without b has that of the index."""
    if not isinstance(metric, Upsilon) or not metric.b_is_open:
        return metric
    found = _of_index(metric, indexes, index, PAIRS, SEED, progress or Silent())
    measured = {"b-index": found.manifest.id[:12], "b-pairs": str(found.drawn), "b-seed": str(SEED)}
    return metric.with_b(_written(found.b), measured)


class _OfIndex(NamedTuple):
    """The b of an index, and which index that was."""

    b: float
    drawn: int  # pairs: fewer than asked for, where most of an index is one dialogue
    called: str  # name@version
    manifest: IndexManifest


def _of_index(metric: Metric, indexes: Versions, index: str, pairs: int, seed: int, progress: Progress) -> _OfIndex:
    """What is kept, or else measured and kept; the version is held, so that nobody removes the index meanwhile."""
    base = metric.base if isinstance(metric, Upsilon) else metric
    with indexes.open(index) as held:
        manifest, where = IndexManifest.read(held.folder), f"{held.name}@{held.version}"
        question = _Question(index=manifest.id, metric=_described(base), pairs=pairs, seed=seed)
        path = indexes.folder(held.name, FOLDER) / question.file
        answer = _Answer.read(path, question)
        if answer is None:
            progress.stage(f"baseline of {base.name}")
            answer = _measured(base, held, manifest, question)
            answer.keep(path, question, progress)
    return _OfIndex(answer.b, answer.drawn, where, manifest)


def _described(base: Metric) -> str:
    """All that can change what the metric gives to a pair of texts."""
    settings = {key: value for key, value in base.settings.items() if key not in _OF_SEVERAL}
    return Signature(metric=base.name, settings=settings, details=base.versions()).full


@dataclass(frozen=True, kw_only=True)
class _Question:
    """What a kept number is the answer to."""

    index: str  # the id of the index's content, whatever it is called
    metric: str
    pairs: int
    seed: int

    @property
    def file(self) -> str:
        """Its name, of the content and of all the rest."""
        digest = hashlib.sha256(orjson.dumps(asdict(self), option=orjson.OPT_SORT_KEYS)).hexdigest()
        return f"{self.index[:12]}-{digest[:12]}.json"

    def answered(self, b: object, drawn: object) -> dict[str, object]:
        """The file: no time and no machine in it, so that all who write it write the same bytes."""
        return {"kind": _KIND, "format_version": _FORMAT_VERSION, **asdict(self), "drawn": drawn, "b": b}


@dataclass(frozen=True, kw_only=True)
class _Answer:
    """A mean, and over how many pairs."""

    b: float
    drawn: int

    @classmethod
    def read(cls, path: Path, question: _Question) -> Self | None:
        """What was kept; None where there is nothing, or nothing to be trusted: then it is measured again."""
        try:
            found = read_json(path)
        except (OSError, Corrupt):
            return None
        b, drawn = found.get("b"), found.get("drawn")
        if found != question.answered(b, drawn) or type(b) is not float or type(drawn) is not int:
            return None
        return cls(b=b, drawn=drawn) if -1 <= b <= _LARGEST and 1 <= drawn <= question.pairs else None

    def keep(self, path: Path, question: _Question, progress: Progress) -> None:
        """Write it down; where that cannot be done, say so, and let the work go on."""
        try:
            make_folder(path.parent)
            with hold(path.parent / ".lock"):  # for the moment of writing: what lies aside now is of a killed process
                remove_asides(path.parent)
                write_json(path, question.answered(self.b, self.drawn))
        except (OSError, StorageFull) as error:
            progress.warn(f"the baseline of the index could not be kept, and will be measured again: {error}")


def _measured(base: Metric, held: Held, manifest: IndexManifest, question: _Question) -> _Answer:
    where = f"index {held.name}@{held.version}"
    require_files(held.folder, read_json(held.folder / MANIFEST))
    live = [_Live.of(open_segment(held.folder, number, info)) for number, info in enumerate(manifest.segments)]
    pairings = _drawn(live, question.pairs, question.seed)
    if not pairings:
        raise BadInput(
            f"{where} has no two pairs of different dialogues, which b could be measured on",
            remedy="give b in the specification, as refaug metrics baseline prints it for a larger log",
        )
    return _Answer(b=_mean(base, pairings, where), drawn=len(pairings))


# ── drawing pairs ─────────────────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, eq=False)
class _Live:
    """The occurrences of a segment that are not masked, counted from 0 utterance by utterance."""

    segment: Segment
    begins: Rows  # (utterances + 1,): the first occurrence of each
    ends: Rows  # (utterances,): how many live ones there are up to and with each

    @classmethod
    def of(cls, segment: Segment) -> Self:
        """Count them."""
        tables = segment.tables
        begins = tables.occurrence_start[tables.pair_start]
        counts = np.diff(begins)
        if len(tables.superseded):
            counts[tables.superseded] = 0
        return cls(segment, begins, np.cumsum(counts))

    @property
    def total(self) -> int:
        """How many."""
        return int(self.ends[-1]) if len(self.ends) else 0

    def occurrences(self, numbers: Rows) -> Rows:
        """The rows of those with these numbers."""
        utterances = np.searchsorted(self.ends, numbers, side="right")
        return np.asarray(self.begins[utterances + 1] - (self.ends[utterances] - numbers))

    def pairs(self, occurrences: Rows) -> Rows:
        """The pair of each occurrence."""
        return np.searchsorted(self.segment.tables.occurrence_start, occurrences, side="right") - 1


@dataclass(frozen=True, eq=False, kw_only=True)
class _Side:
    """One side of pairs that were drawn: where each text is, and what tells it from others."""

    segment: Rows
    pair: Rows
    log: Rows
    dialogue: NDArray[np.uint64]

    def unrelated(self, other: _Side) -> NDArray[np.bool_]:
        """Which are of another pair and of another dialogue than those of the other side."""
        same_pair = (self.segment == other.segment) & (self.pair == other.pair)
        same_dialogue = (self.log == other.log) & (self.dialogue == other.dialogue)
        return np.asarray(~(same_pair | same_dialogue))


def _drawn(live: Sequence[_Live], pairs: int, seed: int) -> list[tuple[str, str]]:
    """A response and another one, drawn by the seed: of another dialogue, and of another pair, for a repeat is kin.

    A pair comes up as often as the logs have it. Both sides are drawn anew each time, so there are as many pairs as
    are asked for in a small index, too.
    """
    total = sum(one.total for one in live)
    if not total:
        return []
    generator = np.random.Generator(np.random.PCG64(seed))
    found = list[tuple[str, str]]()
    for _ in range(_ROUNDS):
        left, right = (_looked_up(live, generator.integers(0, total, pairs)) for _ in range(2))
        kept = left.unrelated(right)
        found += zip(_texts(live, left, kept), _texts(live, right, kept), strict=True)
        if len(found) >= pairs:
            return found[:pairs]
    return found


def _looked_up(live: Sequence[_Live], numbers: Rows) -> _Side:
    """Where occurrences lie that are counted through all segments."""
    ends = np.cumsum([one.total for one in live])
    segment = np.searchsorted(ends, numbers, side="right")
    pair, log, dialogue = np.empty_like(numbers), np.empty_like(numbers), np.empty(len(numbers), np.uint64)
    for at, one in enumerate(live):
        here = segment == at
        rows = one.occurrences(numbers[here] - (ends[at] - one.total))
        tables = one.segment.tables
        pair[here], log[here] = one.pairs(rows), tables.occurrence_log[rows]
        dialogue[here] = tables.occurrence_dialogue[rows]
    return _Side(segment=segment, pair=pair, log=log, dialogue=dialogue)


def _texts(live: Sequence[_Live], side: _Side, kept: NDArray[np.bool_]) -> list[str]:
    """The responses that are kept, in the order drawn."""
    segment, pair = side.segment[kept], side.pair[kept]
    texts = [""] * len(pair)
    for at, one in enumerate(live):
        here = np.flatnonzero(segment == at)
        for place, text in zip(here.tolist(), one.segment.responses.take(pair[here]), strict=True):
            texts[place] = text or ""
    return texts
