"""What answers say, as frozen dataclasses: typed, in the order sent, and with everything that came.

A class here has the fields that this library knows. What a newer server adds is kept: `more` has it, and `to_dict()` is
the object as it came over the wire. Fields with a default may be missing; without any other one an answer is refused.
"""

from __future__ import annotations

import copy
import typing
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import MISSING, dataclass, field, fields
from typing import Any, Callable, ClassVar, NamedTuple, Optional, TypeVar, Union

from ._errors import NoScore, Usage
from ._frames import frame

M = TypeVar("M", bound="Model")
T = TypeVar("T")
Read = Callable[[Any], Any]

_SHOWN = 3  # entries of a list or dict in a repr
_TEXT = 60  # characters of a text in a repr


class _Field(NamedTuple):
    name: str
    key: str  # what the wire calls it
    read: Optional[Read]  # None: it is taken as it is
    default: Any


class Model:
    """An object of an answer."""

    _wire: ClassVar[Optional[Mapping[str, Any]]] = None  # of each object its own, where it came over the wire

    @classmethod
    def of(cls: type[M], wire: Any) -> M:  # noqa: PYI019  Self is of 3.11
        """The object that an answer describes; TypeError or KeyError where it does not."""
        if not isinstance(wire, dict):
            raise _Wrong(f"{cls.__name__}: an object, and not {_kind(wire)}")
        values: dict[str, Any] = {"_wire": wire}
        for name, key, read, default in _plan(cls):
            if key in wire:
                try:
                    values[name] = wire[key] if read is None else read(wire[key])
                except _Wrong as error:
                    raise _Wrong(f"{cls.__name__}.{name}: {error}") from None
            elif default is not MISSING:
                values[name] = default() if callable(default) else default
            else:
                raise KeyError(f"{cls.__name__} has no {key!r}")
        made = cls.__new__(cls)
        made.__dict__.update(values)
        return made

    @property
    def more(self) -> dict[str, Any]:
        """What came and has no field here: this library is older than the server."""
        known = {one.key for one in _plan(type(self))}
        return {key: value for key, value in (self._wire or {}).items() if key not in known and key != "request_id"}

    @property
    def request_id(self) -> Optional[str]:
        """What the request is called in the server's log, where this is a whole answer."""
        found = (self._wire or {}).get("request_id")
        return found if isinstance(found, str) else None

    def to_dict(self) -> dict[str, Any]:
        """The object as it came over the wire, all of it; a copy."""
        if self._wire is not None:
            return copy.deepcopy(dict(self._wire))
        return {one.key: plain(getattr(self, one.name)) for one in _plan(type(self))}

    def __repr__(self) -> str:
        shown = ((one.name, getattr(self, one.name), one.default) for one in _plan(type(self)))
        said = [f"{name}={short(value)}" for name, value, default in shown if not _is_default(value, default)]
        return f"{type(self).__name__}({', '.join(said)})"


class _Wrong(TypeError):
    """A value of another kind than the field's; the message grows on its way out."""


_PLANS: dict[type, list[_Field]] = {}


def _plan(cls: type) -> list[_Field]:
    """How a class is read: made out of its annotations when it is first needed."""
    found = _PLANS.get(cls)
    if found is None:
        hints = typing.get_type_hints(cls)
        found = _PLANS[cls] = [
            _Field(
                one.name,
                one.metadata.get("key", one.name),
                _reader(hints[one.name]),
                one.default_factory if one.default_factory is not MISSING else one.default,
            )
            for one in fields(cls)
        ]
    return found


def _reader(hint: Any) -> Optional[Read]:
    """What checks a value, and makes models of objects; None where anything will do."""
    origin, given = typing.get_origin(hint), typing.get_args(hint)
    if hint is Any:
        return None
    if origin is Union:
        inner = _reader(next(one for one in given if one is not type(None)))
        return (lambda value: None if value is None else inner(value)) if inner else None
    if origin is list:
        return _list_reader(given[0])
    if origin is dict:
        return _dict_reader(given[1])
    if isinstance(hint, type) and issubclass(hint, Model):
        return hint.of
    return _PLAIN[hint]


def _list_reader(hint: Any) -> Read:
    inner = _reader(hint)

    def read(value: Any) -> list[Any]:
        if not isinstance(value, list):
            raise _Wrong(f"a list, and not {_kind(value)}")
        return value if inner is None else [inner(one) for one in value]

    return read


def _dict_reader(hint: Any) -> Read:
    inner = _reader(hint)

    def read(value: Any) -> dict[str, Any]:
        if not isinstance(value, dict):
            raise _Wrong(f"an object, and not {_kind(value)}")
        return value if inner is None else {key: inner(one) for key, one in value.items()}

    return read


def _text(value: Any) -> str:
    if type(value) is not str:
        raise _Wrong(f"a text, and not {_kind(value)}")
    return value


def _whole(value: Any) -> int:
    if type(value) is not int:
        raise _Wrong(f"a whole number, and not {_kind(value)}")
    return value


def _number(value: Any) -> float:
    if type(value) is float:
        return value
    if type(value) is int:
        return float(value)
    raise _Wrong(f"a number, and not {_kind(value)}")


def _yes_or_no(value: Any) -> bool:
    if type(value) is not bool:
        raise _Wrong(f"true or false, and not {_kind(value)}")
    return value


_PLAIN: dict[Any, Read] = {str: _text, int: _whole, float: _number, bool: _yes_or_no}


def _kind(value: Any) -> str:
    names = {type(None): "null", dict: "an object", list: "a list", str: "a text", bool: "true or false"}
    return names.get(type(value), "a number" if isinstance(value, (int, float)) else type(value).__name__)


def plain(value: Any) -> Any:
    """Models as their objects, wherever they are in it."""
    if isinstance(value, Model):
        return value.to_dict()
    if isinstance(value, Mapping):
        return {key: plain(one) for key, one in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(one) for one in value]
    return value


def _is_default(value: Any, default: Any) -> bool:
    return default is not MISSING and value == (default() if callable(default) else default)


def short(value: Any) -> str:
    """A value in a repr: as much of it as one line has room for."""
    if isinstance(value, str):
        return repr(value) if len(value) <= _TEXT else f"{value[:_TEXT]!r}…"
    if isinstance(value, dict):
        said = [f"{key!r}: {short(one)}" for key, one in list(value.items())[:_SHOWN]]
        return f"{{{', '.join(said)}{_rest(value)}}}"
    if isinstance(value, list):
        return f"[{', '.join(short(one) for one in value[:_SHOWN])}{_rest(value)}]"
    return f"{value:.6g}" if isinstance(value, float) else repr(value)


def _rest(value: Union[list[Any], dict[Any, Any]]) -> str:
    return f", … {len(value):,} in all" if len(value) > _SHOWN else ""


class Rows(list[T]):
    """A list of results, in order; `next` is where the server's list goes on, if it does."""

    def __init__(self, rows: Sequence[T] = (), next: Optional[str] = None) -> None:  # noqa: A002  the wire's name
        super().__init__(rows)
        self.next = next

    def to_dicts(self) -> list[dict[str, Any]]:
        """Each as it came over the wire."""
        return [plain(one) for one in self]

    def to_frame(self, kind: str = "pandas") -> Any:
        """A frame of pandas or polars with a row for each."""
        return frame(self.to_dicts(), kind)

    def __reduce__(self) -> Any:
        return Rows, (list(self), self.next)


# ── what several answers have ─────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, repr=False)
class FieldProblem(Model):
    """What is wrong in one place of a request."""

    message: str
    field: str = ""
    item: Optional[str] = None
    place: Optional[int] = None


@dataclass(frozen=True, repr=False)
class Versions(Model):
    """What made an answer: name, version and the beginning of the content's hash, where it was asked."""

    index: Optional[str] = None
    rater: Optional[str] = None
    ruber: Optional[str] = None


# ── references and ratings ────────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, repr=False)
class Reference(Model):
    """A reference with its weight and where it comes from: gold, parrot, retrieved or supplied."""

    text: str
    source: str
    weight: Optional[float] = None
    similarity: Optional[float] = None
    rating: Optional[float] = None
    rank: Optional[int] = None
    utterance: Optional[str] = None


@dataclass(frozen=True, repr=False)
class ReferencedItem(Model):
    """An item with its references; it can be sent again, as an item of `score` or `sets.freeze`."""

    id: str
    references: list[Reference]
    excluded: dict[str, int] = field(default_factory=dict)
    note: Optional[str] = None
    evidence: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, repr=False)
class References(Model):
    """Items with references, in the order sent; those under `problems` are not among them."""

    items: list[ReferencedItem]
    versions: Versions
    provenance: dict[str, str] = field(default_factory=dict)
    problems: list[FieldProblem] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)

    def __iter__(self) -> Iterator[ReferencedItem]:
        return iter(self.items)

    def __len__(self) -> int:
        return len(self.items)

    def __getitem__(self, which: Union[int, str]) -> ReferencedItem:
        """An item by its place or its id."""
        if isinstance(which, int):
            return self.items[which]
        for item in self.items:
            if item.id == which:
                return item
        raise KeyError(which)

    def to_frame(self, kind: str = "pandas") -> Any:
        """A frame with a row for each reference, and the item's id in each."""
        rows = [{"item": item.id, **plain(one)} for item in self.items for one in item.references]
        return frame(rows, kind, columns=("item", "text", "source", "weight"))


@dataclass(frozen=True, repr=False)
class Ratings(Model):
    """For each pair the ratings of its candidates, from -1 to 1, in the order sent."""

    ratings: list[list[float]]
    versions: Versions
    warnings: list[str] = field(default_factory=list)

    def __iter__(self) -> Iterator[list[float]]:
        return iter(self.ratings)

    def __len__(self) -> int:
        return len(self.ratings)

    def __getitem__(self, pair: int) -> list[float]:
        return self.ratings[pair]

    def to_frame(self, kind: str = "pandas") -> Any:
        """A frame with a row for each candidate: the place of its pair, its own, and its rating."""
        rows = [
            {"pair": pair, "candidate": place, "rating": rating}
            for pair, ratings in enumerate(self.ratings)
            for place, rating in enumerate(ratings)
        ]
        return frame(rows, kind, columns=("pair", "candidate", "rating"))


# ── scores ────────────────────────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, repr=False)
class ReplyScore(Model):
    """The score of one reply, or why it has none: `problem` is a code, `message` the same in words."""

    id: str
    score: Optional[float]
    parts: Optional[dict[str, Any]] = None
    problem: Optional[str] = None
    message: Optional[str] = None


@dataclass(frozen=True, repr=False)
class SystemScores(Model):
    """One system under one metric."""

    corpus: Optional[float]
    interval: Optional[list[float]] = None
    mean: Optional[float] = None
    mean_interval: Optional[list[float]] = None
    scored: int = 0
    unscored: int = 0
    unscored_by_reason: dict[str, int] = field(default_factory=dict)
    interval_note: Optional[str] = None
    parts: Optional[dict[str, Any]] = None
    details: Optional[list[ReplyScore]] = field(default=None, metadata={"key": "replies"})
    values: Optional[list[Optional[float]]] = None

    @property
    def replies(self) -> list[Optional[float]]:
        """A score for each reply, in the order sent; None where there is none."""
        if self.values is not None:
            return list(self.values)
        if self.details is not None:
            return [one.score for one in self.details]
        raise Usage(
            "sums that were put together do not say what single replies have", remedy="the scores of the batches do"
        )

    def __repr__(self) -> str:
        unscored = f", {self.unscored:,} unscored" if self.unscored else ""
        return f"SystemScores(corpus={_scored(self.corpus, self.interval)}, {self.scored:,} scored{unscored})"


@dataclass(frozen=True, repr=False)
class Comparison(Model):
    """A system beside the baseline, on the items that both have a score for."""

    difference: Optional[float]
    interval: Optional[list[float]] = None
    p_bootstrap: Optional[float] = None
    p_randomisation: Optional[float] = None
    replies: int = 0
    left_out: int = 0
    note: Optional[str] = None


@dataclass(frozen=True, repr=False)
class MetricScores(Model):
    """All systems under one metric; `metric_scores["model"]` is one of them."""

    metric: str
    signature: str
    signature_full: str
    systems: dict[str, SystemScores]
    corpus_from: str = ""
    higher_is_better: bool = True
    scale: float = 1.0
    references: Any = None  # names what was looked at; of sums that were put together, a list
    comparisons: Optional[dict[str, Comparison]] = None

    def __getitem__(self, system: str) -> SystemScores:
        if system in self.systems:
            return self.systems[system]
        raise KeyError(f"{system!r}; there are: {', '.join(self.systems)}")

    @property
    def system(self) -> SystemScores:
        """The one system that there is; Usage where there are several."""
        if len(self.systems) == 1:
            return next(iter(self.systems.values()))
        raise Usage(
            f"there are {len(self.systems)} systems: {', '.join(self.systems)}",
            remedy="say which one: scores[metric][system]",
        )

    @property
    def corpus(self) -> Optional[float]:
        """The corpus score of the one system."""
        return self.system.corpus

    @property
    def interval(self) -> Optional[list[float]]:
        """The interval of that, where draws were asked for."""
        return self.system.interval

    @property
    def replies(self) -> list[Optional[float]]:
        """The one system's score for each reply, in the order sent."""
        return self.system.replies

    def __repr__(self) -> str:
        said = ", ".join(f"{name}: {_scored(one.corpus, one.interval)}" for name, one in self.systems.items())
        return f"MetricScores({self.metric}, {said}, signature={short(self.signature)})"


@dataclass(frozen=True, repr=False)
class MetricSums(Model):
    """What scores by one metric are made of, for `combine`."""

    metric: str
    signature_full: str
    columns: list[str]
    systems: dict[str, Any]


@dataclass(frozen=True, repr=False)
class Resampling(Model):
    """How intervals were drawn."""

    draws: int
    method: str = ""
    confidence: float = 0.95
    seed: int = 1


@dataclass(frozen=True, repr=False)
class ScoredSet(Model):
    """Which reference set scores are against."""

    id: str
    purpose: str = ""
    items: int = 0


@dataclass(frozen=True, repr=False)
class Scores(Model):
    """Scores of replies: by metric, by system, by reply.

    `scores["upsilon-bleu"]["model"].replies` has a number for each reply, in the order sent. Where there is one metric,
    or one system, it need not be named: `scores.corpus`, `scores.replies`, `scores.signature`.
    """

    scores: list[MetricScores] = field(default_factory=list)
    data: Any = None
    items: Optional[int] = None
    batches: Optional[int] = None
    resampling: Optional[Resampling] = None
    evidence: Optional[dict[str, Any]] = None
    stats: Optional[list[MetricSums]] = None
    set: Optional[ScoredSet] = None
    versions: Optional[Versions] = None
    problems: list[FieldProblem] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)

    def __getitem__(self, metric: str) -> MetricScores:
        """One metric: by its name, or by name and settings as it was asked for."""
        found = [one for one in self.scores if one.metric == metric]
        if len(found) == 1:
            return found[0]
        asked: Sequence[str] = self.__dict__.get("_asked", ())
        if asked.count(metric) == 1 and len(asked) == len(self.scores):
            return self.scores[asked.index(metric)]
        names = list(asked) if len(asked) == len(self.scores) else [one.metric for one in self.scores]
        raise KeyError(f"{metric!r}; there are: {', '.join(names) or 'none'}")

    def __iter__(self) -> Iterator[MetricScores]:
        return iter(self.scores)

    def __len__(self) -> int:
        return len(self.scores)

    @property
    def metric(self) -> MetricScores:
        """The one metric that there is; Usage where there are several, or none."""
        if len(self.scores) == 1:
            return self.scores[0]
        if not self.scores:
            raise Usage("these are sums, and no scores yet", remedy="combine() makes scores of them")
        names = ", ".join(one.metric for one in self.scores)
        raise Usage(f"there are {len(self.scores)} metrics: {names}", remedy="say which one: scores[metric]")

    @property
    def corpus(self) -> Optional[float]:
        """The corpus score, where there is one metric and one system."""
        return self.metric.corpus

    @property
    def interval(self) -> Optional[list[float]]:
        """The interval of that, where draws were asked for."""
        return self.metric.interval

    @property
    def replies(self) -> list[Optional[float]]:
        """A score for each reply in the order sent, where there is one metric and one system; None: it has none."""
        return self.metric.replies

    def floats(self, missing: Optional[float] = None) -> list[float]:
        """The same as numbers alone: `missing` stands for what has no score; NoScore where none was given."""
        replies = self.replies
        if missing is None and None in replies:
            raise NoScore(
                f"reply {replies.index(None)} has no score, and {replies.count(None) - 1:,} others have none",
                remedy="floats(missing=0.0), or replies, which has None there",
            )
        return [missing if one is None else one for one in replies]  # type: ignore[misc]  # None was refused

    @property
    def signature(self) -> str:
        """All that the numbers depend on, in short; it belongs beside every number."""
        return self.metric.signature

    def to_frame(self, kind: str = "pandas", *, corpus: bool = False) -> Any:
        """A frame with a row for each reply under each metric; with `corpus`, for each system under each metric."""
        if corpus:
            rows = [row for one in self.scores for row in _corpus_rows(one)]
            return frame(rows, kind, columns=("metric", "system", "corpus", "signature"))
        rows = [row for one in self.scores for row in _reply_rows(one)]
        return frame(rows, kind, columns=("metric", "system", "place", "score"))

    def __repr__(self) -> str:
        lines = [
            f"  {one.metric:<16} {name}: {_scored(system.corpus, system.interval)} ({system.scored:,} scored"
            + (f", {system.unscored:,} unscored)" if system.unscored else ")")
            for one in self.scores
            for name, system in one.systems.items()
        ]
        lines += [f"  sums of {one.metric}" for one in self.stats or ()]
        against = f" against {self.set.id}" if self.set else ""
        wrong = f", {len(self.problems):,} left out" if self.problems else ""
        return "\n".join([f"Scores({'?' if self.items is None else f'{self.items:,}'} items{against}{wrong})", *lines])


def _scored(score: Optional[float], interval: Optional[list[float]]) -> str:
    said = "none" if score is None else f"{score:.4f}"
    return f"{said} [{interval[0]:.4f}, {interval[1]:.4f}]" if interval and len(interval) == 2 else said


def _corpus_rows(scores: MetricScores) -> Iterator[dict[str, Any]]:
    for name, system in scores.systems.items():
        low, high = system.interval or (None, None)
        yield {
            "metric": scores.metric,
            "system": name,
            "corpus": system.corpus,
            "low": low,
            "high": high,
            "mean": system.mean,
            "scored": system.scored,
            "unscored": system.unscored,
            "signature": scores.signature,
        }


def _reply_rows(scores: MetricScores) -> Iterator[dict[str, Any]]:
    for name, system in scores.systems.items():
        replies = system.replies
        details: Sequence[Optional[ReplyScore]] = system.details or [None] * len(replies)
        for place, (score, detail) in enumerate(zip(replies, details)):
            yield {
                "metric": scores.metric,
                "system": name,
                "place": place,
                "item": detail.id if detail else None,
                "score": score,
                "problem": detail.problem if detail else None,
            }


@dataclass(frozen=True, repr=False)
class Parameter(Model):
    """One key of a metric's specification."""

    name: str
    default: str = ""
    values: str = ""
    choices: Optional[list[str]] = None
    help: str = ""


@dataclass(frozen=True, repr=False)
class MetricInfo(Model):
    """What a metric is: what it looks at, its range and direction, its parameters."""

    name: str
    summary: str = ""
    references: str = ""
    range: list[Optional[float]] = field(default_factory=list)
    higher_is_better: bool = True
    corpus_from: str = ""
    needs: list[str] = field(default_factory=list)
    paper: str = ""
    parameters: list[Parameter] = field(default_factory=list)


# ── reference sets ────────────────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, repr=False)
class Withdrawal(Model):
    """Why a set is not to be used any more, and which one to use instead."""

    reason: str
    instead: Optional[str] = None
    at: str = ""
    id: Optional[str] = None


@dataclass(frozen=True, repr=False)
class ListedSet(Model):
    """A set in a list; where `problem` says what is wrong with its file, all else is None."""

    id: str
    problem: Optional[str] = None
    purpose: Optional[str] = None
    items: Optional[int] = None
    references: Optional[int] = None
    created: Optional[str] = None
    parent: Optional[str] = None
    withdrawn: Optional[Withdrawal] = None


@dataclass(frozen=True, repr=False)
class Bin(Model):
    """How many references have a weight between two numbers."""

    low: float = field(metadata={"key": "from"})
    high: float = field(metadata={"key": "to"})
    references: int


@dataclass(frozen=True, repr=False)
class Evidence(Model):
    """On what scores against a set stand; golds are not counted."""

    sources: dict[str, int]
    thin: int
    weights: list[Bin]


@dataclass(frozen=True, repr=False)
class ReferenceSet(Model):
    """A frozen set of items with weighted references: how it was made, and on what scores against it stand."""

    id: str
    purpose: str
    items: int
    references: int
    created: str = ""
    provenance: dict[str, str] = field(default_factory=dict)
    details: dict[str, str] = field(default_factory=dict)
    parent: Optional[str] = None
    how: dict[str, Any] = field(default_factory=dict)
    content: str = ""
    refaug: str = ""
    kind: str = "reference-set"
    format_version: int = 1
    withdrawn: Optional[Withdrawal] = None
    evidence: Optional[Evidence] = None

    def __repr__(self) -> str:
        withdrawn = f", withdrawn: {short(self.withdrawn.reason)}" if self.withdrawn else ""
        return (
            f"{type(self).__name__}({self.id}, {self.purpose}, {self.items:,} items, "
            f"{self.references:,} references{withdrawn})"
        )


@dataclass(frozen=True, repr=False)
class FrozenSet(ReferenceSet):
    """A set that is there now; `new` says whether it was not there before."""

    new: bool = True
    problems: list[FieldProblem] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)


# ── logs ──────────────────────────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, repr=False)
class Waiting(Model):
    """What was posted to a log and is not in it yet."""

    requests: int
    dialogues: int
    bytes: int


@dataclass(frozen=True, repr=False)
class Log(Model):
    """What a log holds; `waiting`, `created`, `ingests` and `erased` only where one log was asked for."""

    name: str
    problem: Optional[str] = None
    pairs: Optional[int] = None
    dialogues: Optional[int] = None
    distinct_utterances: Optional[int] = None
    bytes: Optional[int] = None
    updated: Optional[str] = None
    created: Optional[str] = None
    ingests: Optional[int] = None
    erased: dict[str, int] = field(default_factory=dict)
    waiting: Optional[Waiting] = None


@dataclass(frozen=True, repr=False)
class BadDialogue(Model):
    """A dialogue that was left out."""

    place: int
    message: str
    id: Optional[str] = None
    field: str = ""


@dataclass(frozen=True, repr=False)
class Posted(Model):
    """Dialogues that are kept safely, and will be in the log with its next ingest."""

    log: str
    accepted: int
    duplicate: bool
    ids: list[str]
    waiting: Waiting
    problems: list[BadDialogue] = field(default_factory=list)


# ── indexes and raters ────────────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, repr=False)
class IndexVersion(Model):
    """One version of an index; where `problem` says what is wrong with its files, all else is None."""

    version: str
    published: bool
    problem: Optional[str] = None
    id: Optional[str] = None
    logs: Optional[list[str]] = None
    bytes: Optional[int] = None
    created: Optional[str] = None
    vectors: Optional[str] = None
    tokenizer: Optional[str] = None
    kind: Optional[str] = None
    utterances: Optional[int] = None
    pairs: Optional[int] = None
    segments: Optional[int] = None
    superseded: Optional[int] = None
    recall_at_15: Optional[float] = None
    recall_interval: Optional[list[float]] = None
    recall_target: Optional[float] = None


@dataclass(frozen=True, repr=False)
class RaterVersion(Model):
    """One version of a rater; where `problem` says what is wrong with its files, all else is None."""

    version: str
    published: bool
    problem: Optional[str] = None
    id: Optional[str] = None
    logs: Optional[list[str]] = None
    bytes: Optional[int] = None
    tokenizer: Optional[str] = None
    languages: Optional[list[str]] = None
    temperature: Optional[float] = None
    embedding: Optional[int] = None
    hidden: Optional[int] = None


@dataclass(frozen=True, repr=False)
class Index(Model):
    """An index: its complete versions, oldest first, and what is known of the published one."""

    name: str
    current: Optional[str]
    versions: list[str]
    published: Optional[IndexVersion] = None


@dataclass(frozen=True, repr=False)
class Rater(Model):
    """A rater: its complete versions, oldest first, and what is known of the published one."""

    name: str
    current: Optional[str]
    versions: list[str]
    published: Optional[RaterVersion] = None


@dataclass(frozen=True, repr=False)
class Published(Model):
    """What came of publishing: `lacking` are processes of the server that still answer with another version."""

    kind: str
    name: str
    version: str
    serving: list[int] = field(default_factory=list)
    lacking: list[int] = field(default_factory=list)
    problems: dict[str, str] = field(default_factory=dict)


# ── jobs and schedules ────────────────────────────────────────────────────────────────────────────────────────────

ENDED = ("done", "failed", "cancelled")


@dataclass(frozen=True, repr=False)
class Job(Model):
    """A job: what it is to do, where it is, and what came of it."""

    id: str
    kind: str
    state: str
    order: dict[str, Any] = field(default_factory=dict)
    resources: list[str] = field(default_factory=list)
    created: str = ""
    started: Optional[str] = None
    finished: Optional[str] = None
    tries: int = 0
    progress: Optional[dict[str, Any]] = None
    result: Optional[dict[str, Any]] = None
    error: Optional[dict[str, Any]] = None
    requested_by: Optional[str] = None
    schedule: Optional[str] = None
    cancel_requested: bool = False

    @property
    def is_ended(self) -> bool:
        """Whether it is done, failed or cancelled."""
        return self.state in ENDED

    def __repr__(self) -> str:
        said = [self.id, self.kind, self.state]
        if self.progress and not self.is_ended:
            said.append(f"progress={short(self.progress)}")
        if self.error:
            said.append(f"error={short(self.error.get('detail', self.error))}")
        if self.result:
            said.append(f"result={short(self.result)}")
        return f"Job({', '.join(said)})"


@dataclass(frozen=True, repr=False)
class Firing(Model):
    """What became of one time at which a schedule was due."""

    due: str
    job: Optional[str] = None
    state: Optional[str] = None
    note: Optional[str] = None


@dataclass(frozen=True, repr=False)
class Schedule(Model):
    """A job that begins by the clock; `firings`, newest first, only where one schedule was asked for."""

    name: str
    cron: str
    timezone: str
    order: dict[str, Any]
    enabled: bool
    created: str = ""
    updated: str = ""
    next: list[str] = field(default_factory=list)
    firings: list[Firing] = field(default_factory=list)


# ── health ────────────────────────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, repr=False)
class Health(Model):
    """The server lives, and is of this version."""

    status: str
    version: str


@dataclass(frozen=True, repr=False)
class Ready(Model):
    """Whether requests are answered without waiting for anything; `missing` names what is not there yet."""

    status: str
    versions: dict[str, dict[str, str]] = field(default_factory=dict)
    troubles: dict[str, str] = field(default_factory=dict)
    missing: list[str] = field(default_factory=list)

    @property
    def is_ready(self) -> bool:
        """Whether nothing is missing."""
        return self.status == "ready"

    def __bool__(self) -> bool:
        return self.is_ready


@dataclass(frozen=True, repr=False)
class ProblemCode(Model):
    """What a code of problem means."""

    code: str
    status: int
    title: str
