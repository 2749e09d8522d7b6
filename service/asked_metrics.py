"""Metrics as a command or a request asks for them: built, counted from the b of an index, and told whom to ask.

Words for what is missing differ (options there, fields here), so what a metric wants is told, and not required.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Final, Self

from core.items import BadItem
from core.progress import Progress
from core.records import Item, Origin
from core.text import default_tokenizer
from core.versions import Versions
from metrics.base import Metric
from metrics.catalogue import METRICS, Uses
from metrics.ranges import AUTO
from metrics.signature import Signature
from metrics.specification import Specification, build
from metrics.upsilon import Upsilon, open_without_b

if TYPE_CHECKING:
    from service.baseline import Base

_REMEMBERED: Final = 1_000  # a number and three words each

_FILES: Final = frozenset({"vectors", "encoder", "wordnet"})  # parameters that name a file or folder
_NO_FILES: Final = frozenset({"none", "/usr/share/wordnet"})  # of those: nothing, and where WordNet lies anyway
MODEL: Final = "sentencepiece:"

Based = Callable[[Metric], Metric]


def default_metric(items: Sequence[Item | BadItem]) -> str:
    """The score that the references were made for."""
    sources = {one.source for item in items if isinstance(item, Item) for one in item.pair.references}
    if sources & {Origin.RETRIEVED, Origin.PARROT}:
        return "upsilon-bleu"
    return "delta-bleu" if Origin.SUPPLIED in sources else "multi-bleu"


def metrics_of(
    specifications: Sequence[str],
    language: str | None,
    by_default: Mapping[str, str] | None = None,
    based: Based | None = None,
) -> list[Metric]:
    """The metrics asked for, each once; `by_default` are parameters that other options or fields stand for.

    `based` gives a weighted form that was asked for without b the one that it is to have; without it that is 0.
    """
    defaults = {**(by_default or {}), **({"tok": default_tokenizer(language)} if language else {})}
    asked = [Specification.parse(text) for text in specifications]
    metrics = [open_without_b(build(one, defaults), one) for one in asked]
    by_signature = {Signature.of(one).full: one for one in (map(based, metrics) if based is not None else metrics)}
    return list(by_signature.values())


# ── files that they name ──────────────────────────────────────────────────────────────────────────────────────────


def with_files(specifications: Sequence[str], found: Callable[[str], Path]) -> tuple[str, ...]:
    """The same with every file that they name where `found` says that it lies, or what that raises.

    Whoever takes metrics from elsewhere than this machine decides by it which files they may read.
    """

    def value_of(key: str, value: str) -> str:
        if value.startswith(MODEL):
            return f"{MODEL}{found(value.removeprefix(MODEL))}"
        return value if key not in _FILES or value in _NO_FILES else str(found(value))

    return tuple(str(_with_values(Specification.parse(text), value_of)) for text in specifications)


def _with_values(asked: Specification, change: Callable[[str, str], str]) -> Specification:
    """With every value changed, those of the parts of `ruber` too: they stand behind the part's name, after `;`."""

    def changed(key: str, value: str) -> str:
        first, *rest = (one.strip() for one in value.split(";"))
        inner = [[side.strip() for side in one.partition("=")] for one in rest]
        return ";".join([change(key, first), *(f"{name}{equals}{change(name, of)}" for name, equals, of in inner)])

    return Specification(asked.name, tuple((key, changed(key, value)) for key, value in asked.given))


# ── b ─────────────────────────────────────────────────────────────────────────────────────────────────────────────


def based_in(indexes: Versions, index: str, progress: Progress) -> Based:
    """What gives metrics the b of an index, named as signatures name it."""
    from service.baseline import based_on  # noqa: PLC0415  the index, which scores against sets go without

    return lambda metric: based_on(metric, indexes, index.partition("#")[0], progress)


class Bases:
    """The b of weighted forms in indexes, remembered: a server is asked for the same ones again and again."""

    def __init__(self, indexes: Versions) -> None:
        self._indexes = indexes
        self._known: OrderedDict[tuple[str, str], Base] = OrderedDict()
        self._told: OrderedDict[tuple[str, str, str | None], None] = OrderedDict()
        self._lock = Lock()

    def has_told(self, index: str, specifications: Sequence[str], language: str | None) -> bool:
        """Whether all of these had their b of this index before: then it takes no time to speak of."""
        with self._lock:
            return all((index, one, language) in self._told for one in specifications)

    def note_told(self, index: str, specifications: Sequence[str], language: str | None) -> None:
        """Remember that they have."""
        with self._lock:
            for one in specifications:
                self._told[index, one, language] = None
                self._told.move_to_end((index, one, language))
            while len(self._told) > _REMEMBERED:
                self._told.popitem(last=False)

    def of(self, index: str) -> Based:
        """What gives metrics the b of an index, named as signatures name it: by its content, which never changes."""

        def based(metric: Metric) -> Metric:
            if not isinstance(metric, Upsilon) or not metric.b_is_open:
                return metric
            base = self._base(metric, index)
            return metric.with_b(base.written, base.measured)

        return based

    def _base(self, metric: Upsilon, index: str) -> Base:
        from service.baseline import base_of  # noqa: PLC0415  the index

        asked = (index, Signature.of(metric).full)
        with self._lock:
            if asked in self._known:
                self._known.move_to_end(asked)
                return self._known[asked]
        found = base_of(metric, self._indexes, index.partition("#")[0])
        with self._lock:
            self._known[asked] = found
            if len(self._known) > _REMEMBERED:
                self._known.popitem(last=False)
        return found


def lacking_b(metrics: Sequence[Metric], items: Sequence[Item | BadItem], remedy: str | None = None) -> str | None:
    """Advice where the references are those of an index, and a weighted form that counts from 0 could count from b.

    What would help is the command that measures b, or what it is called where there are no commands.
    """
    names = [one.name for one in metrics if isinstance(one, Upsilon) and one.b_is_open]
    if not names:
        return None
    references = (one for item in items if isinstance(item, Item) for one in item.pair.references)
    indexes = {one.more.get("index") for one in references if one.source is Origin.RETRIEVED}
    known = sorted(one for one in indexes if isinstance(one, str))
    if not known:
        return None
    remedy = remedy or f"refaug metrics baseline {names[0]} --index {known[0]} measures b"
    return f"{', '.join(names)} without b counts from 0, though the references are those of an index: {remedy}"


# ── whom they ask ─────────────────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, kw_only=True)
class Wants:
    """What a metric will ask for, as far as its specification tells: mistakes in it are found when it is built."""

    name: str
    rater: bool = False
    ruber: bool = False
    sample: bool = False
    weigher: bool = False  # a rater, for the references of the sample
    weighted: bool = False  # references with their weights
    base: bool = False  # the b of an index

    @classmethod
    def of(cls, text: str) -> Self:
        """Read it."""
        name, _, rest = text.strip().partition(":")
        info = METRICS.get(name)
        if name != "ruber" or info is None:
            weighted = info is not None and info.uses is Uses.WEIGHTED
            has_b = info is not None and any(one.name == "b" for one in info.parameters)
            base = has_b and "b" not in _given(rest)
            return cls(name=name, rater=info is not None and info.needs_rater, weighted=weighted, base=base)
        given = _given(rest)
        asks_rater = _first(given.get("unreferenced", "ruber")) == "rater"
        sample = given.get("norm", "log") == "log" and given.get("range-ref", AUTO) == AUTO
        compared = METRICS.get(_first(given.get("referenced", "")))
        weighted = compared is not None and compared.uses is Uses.WEIGHTED
        return cls(
            name=name,
            rater=asks_rater,
            ruber=not asks_rater,
            sample=sample,
            weigher=sample and weighted,
            weighted=weighted,
        )


def _given(parameters: str) -> dict[str, str]:
    return {key.strip(): value.strip() for key, _, value in (one.partition("=") for one in parameters.split(","))}


def _first(part: str) -> str:
    """The name of a part, which its own parameters follow."""
    return part.partition(";")[0].strip()
