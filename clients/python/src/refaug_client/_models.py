"""What answers say, as frozen dataclasses: typed, in the order sent, and with everything that came.

A class here has the fields that this library knows. What a newer server adds is kept: `more` has it, and `to_dict()` is
the object as it came over the wire. Fields with a default may be missing; without any other one an answer is refused.
"""

from __future__ import annotations

import copy
import typing
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import MISSING, FrozenInstanceError, dataclass, field, fields
from typing import TYPE_CHECKING, Any, Callable, ClassVar, NamedTuple, NoReturn, Optional, TypeVar, Union, overload

from ._errors import NoScore, Usage
from ._frames import frame

if TYPE_CHECKING:
    from typing_extensions import dataclass_transform
else:

    def dataclass_transform(**_: Any) -> Callable[[Any], Any]:
        """What type checkers know of `record`."""
        return lambda decorator: decorator


K = TypeVar("K")
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


@dataclass_transform(frozen_default=True, field_specifiers=(field,))
def record(cls: type[K]) -> type[K]:
    """A frozen dataclass; `Model` has its methods, once for all: made for each, they would be half of our import."""
    return dataclass(init=False, repr=False, eq=False)(cls)


class Model:
    """An object of an answer."""

    _wire: ClassVar[Optional[Mapping[str, Any]]] = None  # of each object its own, where it came over the wire

    if not TYPE_CHECKING:

        def __init__(self, *given: Any, **named: Any) -> None:
            known = fields(self)
            if len(given) > len(known):
                raise TypeError(f"{type(self).__name__} has {len(known)} fields, and {len(given)} values were given")
            values = dict(zip((one.name for one in known), given))
            if wrong := [name for name in named if name in values or name not in {one.name for one in known}]:
                raise TypeError(f"{type(self).__name__}: {wrong[0]!r} is no field of it, or given twice")
            values.update(named)
            for one in known:
                if one.name not in values:
                    values[one.name] = one.default if one.default_factory is MISSING else one.default_factory()
                if values[one.name] is MISSING:
                    raise TypeError(f"{type(self).__name__}: no value for {one.name!r}")
            self.__dict__.update(values)

    def __setattr__(self, name: str, value: object) -> NoReturn:
        raise FrozenInstanceError(f"cannot assign to field {name!r}")

    def __delattr__(self, name: str) -> NoReturn:
        raise FrozenInstanceError(f"cannot delete field {name!r}")

    def __eq__(self, other: object) -> bool:
        if type(other) is not type(self):
            return NotImplemented
        return all(getattr(self, one.name) == getattr(other, one.name) for one in fields(self))  # type: ignore[arg-type]

    __hash__: ClassVar[None] = None  # type: ignore[assignment]  # most of them have lists

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
    if origin is Sequence:
        return ReplyScores
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
    if isinstance(value, (list, tuple, ReplyScores)):
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


@record
class FieldProblem(Model):
    """What is wrong in one place of a request."""

    message: str  # what was found, and what would be right
    field: str = ""  # such as `items[3].references[0].weight`
    item: Optional[str] = None  # id of the item, where it has one
    place: Optional[int] = None  # the item's place in the list, from 0


@record
class Versions(Model):
    """What made an answer: name, version and the beginning of the content's hash, where it was asked."""

    index: Optional[str] = None  # such as `chat@2026-11-20.1#9f2c41d07e12`
    rater: Optional[str] = None
    ruber: Optional[str] = None


# ── references and ratings ────────────────────────────────────────────────────────────────────────────────────────


@record
class Reference(Model):
    """A reference with its weight and where it comes from: gold, parrot, retrieved or supplied."""

    text: str
    source: str  # gold, parrot, retrieved or supplied
    weight: Optional[float] = None  # what a match with it is worth, from -1 to 1
    similarity: Optional[float] = None  # of what it answered to the item's utterance
    rating: Optional[float] = None  # what the rater gave it, from -1 to 1
    rank: Optional[int] = None  # its place among those that were found, from 1
    utterance: Optional[str] = None  # what it answered, where it was found


@record
class ReferencedItem(Model):
    """An item with its references; it can be sent again, as an item of `score` or `sets.freeze`."""

    id: str
    references: list[Reference]  # golds and supplied ones, the parrot, then what was found
    excluded: dict[str, int] = field(default_factory=dict)  # what was left out on the way, counted by the reason
    note: Optional[str] = None  # why nothing was found, or nothing could be rated
    evidence: dict[str, Any] = field(default_factory=dict)  # on what a weighted score of it stands


@record
class References(Model):
    """Items with references, in the order sent; those under `problems` are not among them."""

    items: list[ReferencedItem]
    versions: Versions  # what made the references
    provenance: dict[str, str] = field(default_factory=dict)
    problems: list[FieldProblem] = field(default_factory=list)  # items that were left out, with on_error="report"
    warnings: list[str] = field(default_factory=list)  # what one should know of the others

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


@record
class Ratings(Model):
    """For each pair the ratings of its candidates, from -1 to 1, in the order sent."""

    ratings: list[list[float]]  # for each pair, those of its candidates
    versions: Versions  # what rated them
    warnings: list[str] = field(default_factory=list)  # what makes them mean less than one may think

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


@record
class ReplyScore(Model):
    """The score of one reply, or why it has none: `problem` is a code, `message` the same in words."""

    id: str  # the item's
    score: Optional[float]
    parts: Optional[dict[str, Any]] = None  # what the score was made of
    problem: Optional[str] = None  # a code: why there is none
    message: Optional[str] = None  # the same in words


class ReplyScores(Sequence[ReplyScore]):
    """What is said of single replies, in the order sent; read when asked for, since most want the numbers alone."""

    def __init__(self, rows: Any) -> None:
        if not isinstance(rows, list):
            raise _Wrong(f"a list, and not {_kind(rows)}")
        self._rows = rows
        self.scores: list[Optional[float]] = []
        for row in rows:
            if type(row) is not dict or "score" not in row or type(row.get("id")) is not str:
                ReplyScore.of(row)  # says what is wrong
            score = row["score"]
            self.scores.append(score if score is None or type(score) is float else _number(score))

    def __len__(self) -> int:
        return len(self._rows)

    @overload
    def __getitem__(self, place: int) -> ReplyScore: ...
    @overload
    def __getitem__(self, place: slice) -> list[ReplyScore]: ...
    def __getitem__(self, place: Union[int, slice]) -> Union[ReplyScore, list[ReplyScore]]:
        if isinstance(place, slice):
            return [ReplyScore.of(row) for row in self._rows[place]]
        return ReplyScore.of(self._rows[place])

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sequence) and list(self) == list(other)

    __hash__: ClassVar[None] = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return short(list(self))


@record
class SystemScores(Model):
    """One system under one metric."""

    corpus: Optional[float]  # of all replies together
    interval: Optional[list[float]] = None  # of the corpus score, where draws were asked for
    mean: Optional[float] = None  # of the reply scores
    mean_interval: Optional[list[float]] = None  # of the mean
    scored: int = 0  # replies with a score
    unscored: int = 0  # replies without one
    unscored_by_reason: dict[str, int] = field(default_factory=dict)  # the same by code
    interval_note: Optional[str] = None  # why there is no interval, where one was asked for
    parts: Optional[dict[str, Any]] = None  # what the corpus score was made of
    details: Optional[Sequence[ReplyScore]] = field(default=None, metadata={"key": "replies"})
    values: Optional[list[Optional[float]]] = None

    @property
    def replies(self) -> list[Optional[float]]:
        """A score for each reply, in the order sent; None where there is none."""
        if self.values is not None:
            return list(self.values)
        if isinstance(self.details, ReplyScores):
            return list(self.details.scores)
        if self.details is not None:
            return [one.score for one in self.details]
        raise Usage(
            "sums that were put together do not say what single replies have", remedy="the scores of the batches do"
        )

    def __repr__(self) -> str:
        unscored = f", {self.unscored:,} unscored" if self.unscored else ""
        return f"SystemScores(corpus={_scored(self.corpus, self.interval)}, {self.scored:,} scored{unscored})"


@record
class Comparison(Model):
    """A system beside the baseline, on the items that both have a score for."""

    difference: Optional[float]  # of the corpus scores: the system's less the baseline's
    interval: Optional[list[float]] = None  # of the difference
    p_bootstrap: Optional[float] = None  # how likely so large a difference is by chance, by the bootstrap
    p_randomisation: Optional[float] = None  # the same by approximate randomisation
    replies: int = 0  # on how many it stands
    left_out: int = 0  # replies that only one of the two has a score for
    note: Optional[str] = None  # why there is none


@record
class MetricScores(Model):
    """All systems under one metric; `metric_scores["model"]` is one of them."""

    metric: str
    signature: str  # all that the numbers depend on, in short
    signature_full: str  # the same in full; it can be read back
    systems: dict[str, SystemScores]
    corpus_from: str = ""  # `sums`, or the `mean` of reply scores
    higher_is_better: bool = True
    scale: float = 1.0  # 100 with percent, else 1
    references: Any = None  # names what was looked at; of sums that were put together, a list
    comparisons: Optional[dict[str, Comparison]] = None  # with the baseline, by system

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


@record
class MetricSums(Model):
    """What scores by one metric are made of, for `combine`."""

    metric: str
    signature_full: str  # only sums of equal ones can be put together
    columns: list[str]  # what each number of a row is
    systems: dict[str, Any]


@record
class Resampling(Model):
    """How intervals were drawn."""

    draws: int  # 0: there are none
    method: str = ""  # in words
    confidence: float = 0.95  # of the intervals
    seed: int = 1


@record
class ScoredSet(Model):
    """Which reference set scores are against."""

    id: str
    purpose: str = ""
    items: int = 0


@record
class Scores(Model):
    """Scores of replies: by metric, by system, by reply.

    `scores["upsilon-bleu"]["model"].replies` has a number for each reply, in the order sent. Where there is one metric,
    or one system, it need not be named: `scores.corpus`, `scores.replies`, `scores.signature`.
    """

    scores: list[MetricScores] = field(default_factory=list)  # a metric each
    data: Any = None  # names the items and golds that were scored
    items: Optional[int] = None  # how many
    batches: Optional[int] = None  # how many were put together
    resampling: Optional[Resampling] = None
    evidence: Optional[dict[str, Any]] = None  # on what weighted scores stand, by item
    stats: Optional[list[MetricSums]] = None  # with return_="stats": the sums of each metric
    set: Optional[ScoredSet] = None  # the reference set that they are against
    versions: Optional[Versions] = None  # what was asked beside the texts
    problems: list[FieldProblem] = field(default_factory=list)  # what could not be scored, and why
    warnings: list[str] = field(default_factory=list)  # what one should know of the numbers

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


@record
class Parameter(Model):
    """One key of a metric's specification."""

    name: str
    default: str = ""  # empty: it has to be given
    values: str = ""  # what it may be, in words
    choices: Optional[list[str]] = None  # where it is one of a few words
    help: str = ""


@record
class MetricInfo(Model):
    """What a metric is: what it looks at, its range and direction, its parameters."""

    name: str
    summary: str = ""
    references: str = ""  # which it looks at: gold, golds, own, rated, weighted or utterance
    range: list[Optional[float]] = field(default_factory=list)  # the least and the largest score; None: no bound
    higher_is_better: bool = True
    corpus_from: str = ""  # `sums`, or the `mean` of reply scores
    needs: list[str] = field(default_factory=list)  # beside the texts
    paper: str = ""  # where it comes from
    parameters: list[Parameter] = field(default_factory=list)


# ── reference sets ────────────────────────────────────────────────────────────────────────────────────────────────


@record
class Withdrawal(Model):
    """Why a set is not to be used any more, and which one to use instead."""

    reason: str
    instead: Optional[str] = None
    at: str = ""
    id: Optional[str] = None


@record
class ListedSet(Model):
    """A set in a list; where `problem` says what is wrong with its file, all else is None."""

    id: str
    problem: Optional[str] = None
    purpose: Optional[str] = None
    items: Optional[int] = None
    references: Optional[int] = None
    created: Optional[str] = None
    parent: Optional[str] = None  # the set that it was derived from
    withdrawn: Optional[Withdrawal] = None


@record
class Bin(Model):
    """How many references have a weight between two numbers."""

    low: float = field(metadata={"key": "from"})
    high: float = field(metadata={"key": "to"})
    references: int


@record
class Evidence(Model):
    """On what scores against a set stand; golds are not counted."""

    sources: dict[str, int]  # references by where they come from
    thin: int  # items with few references of positive weight
    weights: list[Bin]  # how many references have which weight


@record
class ReferenceSet(Model):
    """A frozen set of items with weighted references: how it was made, and on what scores against it stand."""

    id: str
    purpose: str
    items: int
    references: int
    created: str = ""
    provenance: dict[str, str] = field(default_factory=dict)  # what both forms of a signature say of the references
    details: dict[str, str] = field(default_factory=dict)  # what the full form says beside that
    parent: Optional[str] = None  # the set that it was derived from
    how: dict[str, Any] = field(default_factory=dict)  # by which steps it came about
    content: str = ""  # SHA-256 of its items
    refaug: str = ""  # the release that wrote it
    kind: str = "reference-set"
    format_version: int = 1  # of its file
    withdrawn: Optional[Withdrawal] = None
    evidence: Optional[Evidence] = None

    def __repr__(self) -> str:
        withdrawn = f", withdrawn: {short(self.withdrawn.reason)}" if self.withdrawn else ""
        return (
            f"{type(self).__name__}({self.id}, {self.purpose}, {self.items:,} items, "
            f"{self.references:,} references{withdrawn})"
        )


@record
class FrozenSet(ReferenceSet):
    """A set that is there now; `new` says whether it was not there before."""

    new: bool = True
    problems: list[FieldProblem] = field(default_factory=list)  # items that were left out, with on_error="report"
    warnings: list[str] = field(default_factory=list)  # what one should know of the others


# ── logs ──────────────────────────────────────────────────────────────────────────────────────────────────────────


@record
class Waiting(Model):
    """What was posted to a log and is not in it yet."""

    requests: int
    dialogues: int
    bytes: int


@record
class Log(Model):
    """What a log holds; `waiting`, `created`, `ingests` and `erased` only where one log was asked for."""

    name: str
    problem: Optional[str] = None
    pairs: Optional[int] = None  # of an utterance and its response
    dialogues: Optional[int] = None  # that have a pair
    distinct_utterances: Optional[int] = None  # however they are written
    bytes: Optional[int] = None
    updated: Optional[str] = None  # None before the first ingest
    created: Optional[str] = None
    ingests: Optional[int] = None  # how many runs have added to it
    erased: dict[str, int] = field(default_factory=dict)  # dialogues and speakers that were deleted, and stay out
    waiting: Optional[Waiting] = None  # what was posted and is not in it yet


@record
class BadDialogue(Model):
    """A dialogue that was left out."""

    place: int  # in the list, from 0
    message: str
    id: Optional[str] = None
    field: str = ""  # such as `turns[1].text`


@record
class Posted(Model):
    """Dialogues that are kept safely, and will be in the log with its next ingest."""

    log: str
    accepted: int
    duplicate: bool  # exactly these were posted before, and are kept once
    ids: list[str]  # of those that were taken, in the order sent
    waiting: Waiting
    problems: list[BadDialogue] = field(default_factory=list)  # what was left out, with on_error="report"


# ── indexes and raters ────────────────────────────────────────────────────────────────────────────────────────────


@record
class IndexVersion(Model):
    """One version of an index; where `problem` says what is wrong with its files, all else is None."""

    version: str
    published: bool
    problem: Optional[str] = None
    id: Optional[str] = None  # what signatures call its content
    logs: Optional[list[str]] = None
    bytes: Optional[int] = None
    created: Optional[str] = None
    vectors: Optional[str] = None  # by which utterances are compared
    tokenizer: Optional[str] = None
    kind: Optional[str] = None  # of its main part, by FAISS's name
    utterances: Optional[int] = None  # distinct ones that can be found
    pairs: Optional[int] = None  # distinct ones that can be found
    segments: Optional[int] = None  # its main part and what updates have added
    superseded: Optional[int] = None  # utterances that a later part, or a deletion, has replaced
    recall_at_15: Optional[float] = None  # the share of exact search's 15 best that it finds
    recall_interval: Optional[list[float]] = None
    recall_target: Optional[float] = None  # what was asked for


@record
class RaterVersion(Model):
    """One version of a rater; where `problem` says what is wrong with its files, all else is None."""

    version: str
    published: bool
    problem: Optional[str] = None
    id: Optional[str] = None  # what signatures call its content
    logs: Optional[list[str]] = None
    bytes: Optional[int] = None
    tokenizer: Optional[str] = None
    languages: Optional[list[str]] = None
    temperature: Optional[float] = None  # of its calibrated ratings
    embedding: Optional[int] = None
    hidden: Optional[int] = None


@record
class Index(Model):
    """An index: its complete versions, oldest first, and what is known of the published one."""

    name: str
    current: Optional[str]
    versions: list[str]
    published: Optional[IndexVersion] = None


@record
class Rater(Model):
    """A rater: its complete versions, oldest first, and what is known of the published one."""

    name: str
    current: Optional[str]
    versions: list[str]
    published: Optional[RaterVersion] = None


@record
class Published(Model):
    """What came of publishing: `lacking` are processes of the server that still answer with another version."""

    kind: str
    name: str
    version: str
    serving: list[int] = field(default_factory=list)  # processes that answer with it
    lacking: list[int] = field(default_factory=list)
    problems: dict[str, str] = field(default_factory=dict)  # what could not be opened


# ── jobs and schedules ────────────────────────────────────────────────────────────────────────────────────────────

ENDED = ("done", "failed", "cancelled")


@record
class Job(Model):
    """A job: what it is to do, where it is, and what came of it."""

    id: str
    kind: str
    state: str  # queued, running, done, failed or cancelled
    order: dict[str, Any] = field(default_factory=dict)  # what was asked for, with all defaults
    resources: list[str] = field(default_factory=list)  # what it writes: no two jobs that share one run at once
    created: str = ""
    started: Optional[str] = None
    finished: Optional[str] = None
    tries: int = 0  # how often it was begun
    progress: Optional[dict[str, Any]] = None  # where it is
    result: Optional[dict[str, Any]] = None  # what came of it
    error: Optional[dict[str, Any]] = None  # why it failed
    requested_by: Optional[str] = None  # name of the key
    schedule: Optional[str] = None  # that asked for it
    cancel_requested: bool = False  # it has been told to stop

    @property
    def is_ended(self) -> bool:
        """Whether it is done, failed or cancelled."""
        return self.state in ENDED

    def __repr__(self) -> str:
        said = [self.id, self.kind, self.state]
        if self.progress and not self.is_ended:
            said.append(f"progress={short(self.progress)}")
        if self.error:
            said.append(f"error={short(self.error.get('message', self.error))}")
        if self.result:
            said.append(f"result={short(self.result)}")
        return f"Job({', '.join(said)})"


@record
class Firing(Model):
    """What became of one time at which a schedule was due."""

    due: str
    job: Optional[str] = None  # that was begun
    state: Optional[str] = None  # the job's
    note: Optional[str] = None  # why no job was begun


@record
class Schedule(Model):
    """A job that begins by the clock; `firings`, newest first, only where one schedule was asked for."""

    name: str
    cron: str  # minute, hour, day of the month, month, day of the week
    timezone: str  # by which clocks
    order: dict[str, Any]  # what its jobs do, with all defaults
    enabled: bool  # whether it begins anything
    created: str = ""
    updated: str = ""
    next: list[str] = field(default_factory=list)  # the next times it is due
    firings: list[Firing] = field(default_factory=list)


# ── health ────────────────────────────────────────────────────────────────────────────────────────────────────────


@record
class Health(Model):
    """The server lives, and is of this version."""

    status: str
    version: str


@record
class Ready(Model):
    """Whether requests are answered without waiting for anything; `missing` names what is not there yet."""

    status: str  # `ready`, or `not ready`
    versions: dict[str, dict[str, str]] = field(default_factory=dict)  # what is served: kind, name, version
    troubles: dict[str, str] = field(default_factory=dict)
    missing: list[str] = field(default_factory=list)  # what is not there yet

    @property
    def is_ready(self) -> bool:
        """Whether nothing is missing."""
        return self.status == "ready"

    def __bool__(self) -> bool:
        return self.is_ready


@record
class ProblemCode(Model):
    """What a code of problem means."""

    code: str
    status: int  # the usual one of answers with it
    title: str  # what it means
