"""Build the metrics that a command or a request asks for, give them the baseline of an index, and tell what they need.

Messages about missing things differ between commands (options) and HTTP (fields): `MetricNeeds` only tells what a
metric needs, and the caller refuses.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any, Final, Self

from refaug.core.artefacts.kinds import artefact_stores
from refaug.core.artefacts.manifests import MANIFEST
from refaug.core.artefacts.versions import Versions
from refaug.core.errors import Usage
from refaug.core.files import read_json
from refaug.core.home import Settings
from refaug.core.memory.bounded_cache import BoundedCache
from refaug.core.progress import Progress
from refaug.core.records import Item, Origin
from refaug.core.text.tokenizers import default_tokenizer
from refaug.evaluation.scoring.held.item_collection import ItemCollection
from refaug.evaluation.scoring.items import BadItem
from refaug.metrics.base import Metric
from refaug.metrics.catalogue import METRICS
from refaug.metrics.metric_info import Uses
from refaug.metrics.models.judged_replies import BUILT_IN_RUBRICS
from refaug.metrics.parameters import AUTO
from refaug.metrics.signature import Signature
from refaug.metrics.specification import Specification, build
from refaug.metrics.upsilon import Upsilon, open_without_b

_CACHE_SIZE: Final = 1_000  # entries, of a number and three words each

_SHARED_METRICS: Final[BoundedCache[tuple[str, ...], Metric]] = BoundedCache(256)
_FILES: Final = frozenset({"vectors", "encoder", "wordnet", "rubric"})  # parameters that name a file or folder
_NO_FILES: Final = frozenset({"none", "/usr/share/wordnet"})  # values that name no file of a user: none, and WordNet
MODEL: Final = "sentencepiece:"

SetBaseline = Callable[[Metric], Metric]


def default_metric(items: Iterable[Item | BadItem], *, searched: bool = False, weighted: bool = False) -> str:
    """Return the metric that the references of the items are meant for.

    Where an index was searched for them, that does not depend on whether it had any. With `weighted` it looks at
    weights in any case.
    """
    sources = set(items.facts.sources) if isinstance(items, ItemCollection) else _sources_of(items)
    if searched or sources & {Origin.RETRIEVED, Origin.PARROT}:
        return "upsilon-bleu"
    return "delta-bleu" if weighted or Origin.SUPPLIED in sources else "multi-bleu"


def metrics_of(
    specifications: Sequence[str],
    language: str | None,
    by_default: Mapping[str, str] | None = None,
    set_baseline: SetBaseline | None = None,
) -> list[Metric]:
    """Build the metrics of the specifications, each only once.

    `by_default` are parameters that other options or fields set. `set_baseline` gives a b to a weighted form that was
    requested without one; without `set_baseline` that b is 0.
    """
    defaults = {**(by_default or {}), **({"tok": default_tokenizer(language)} if language else {})}
    metrics = [_metric_of(text, defaults) for text in specifications]
    if set_baseline is not None:
        metrics = [set_baseline(metric) for metric in metrics]
    if len(metrics) == 1:
        return metrics
    by_signature = {Signature.of(metric).full: metric for metric in metrics}
    return list(by_signature.values())


def _metric_of(text: str, defaults: Mapping[str, str]) -> Metric:
    """Build a metric, or return that of an earlier request where all requests may share it."""
    key = (text, *chain.from_iterable(defaults.items()))
    shared = _SHARED_METRICS.get(key)
    if shared is None:
        specification = Specification.parse(text)
        shared = open_without_b(build(specification, defaults), specification)
        if shared.is_shared:
            _SHARED_METRICS.put(key, shared)
    return shared


# ── files that metrics name ───────────────────────────────────────────────────────────────────────────────────────


def resolve_files(specifications: Sequence[str], resolve: Callable[[str], Path]) -> tuple[str, ...]:
    """Return the specifications with every file that they name replaced by the path that `resolve` returns.

    `resolve` raises where a file may not be read: it decides which files metrics from another machine may name.
    """

    def value_of(key: str, setting: str) -> str:
        if setting.startswith(MODEL):
            return f"{MODEL}{resolve(setting.removeprefix(MODEL))}"
        is_file = key in _FILES and setting not in _NO_FILES and not (key == "rubric" and _is_built_in(setting))
        return str(resolve(setting)) if is_file else setting

    return tuple(str(_with_values(Specification.parse(text), value_of)) for text in specifications)


def _is_built_in(rubric: str) -> bool:
    return rubric.partition("#")[0] in BUILT_IN_RUBRICS


def _with_values(specification: Specification, change: Callable[[str, str], str]) -> Specification:
    """Return the specification with every value changed.

    The values of the parts of `ruber` are changed, too: they stand behind the part's name, after `;`.
    """

    def changed_setting(key: str, setting: str) -> str:
        first, *parameters = (part.strip() for part in setting.split(";"))
        inner = [[side.strip() for side in parameter.partition("=")] for parameter in parameters]
        return ";".join([change(key, first), *(f"{name}{equals}{change(name, text)}" for name, equals, text in inner)])

    settings = tuple((key, changed_setting(key, setting)) for key, setting in specification.parameters)
    return Specification(specification.name, settings)


# ── baselines ─────────────────────────────────────────────────────────────────────────────────────────────────────


def baseline_setter(indexes: Versions, index: str, progress: Progress) -> SetBaseline:
    """Return a function that gives metrics the b of an index; `index` is named as signatures name it."""
    from refaug.evaluation.metric_setup.baseline import with_index_baseline  # noqa: PLC0415  only where an index is used

    return lambda metric: with_index_baseline(metric, indexes, index.partition("#")[0], progress)


class BaselineCache:
    """A cache of the b of weighted forms in indexes, since a server needs the same ones for every request."""

    def __init__(self, indexes: Versions) -> None:
        self._indexes = indexes
        self._baselines: BoundedCache[tuple[str, str], str] = BoundedCache(_CACHE_SIZE)
        self._measured: BoundedCache[tuple[str, str, str | None], bool] = BoundedCache(_CACHE_SIZE)

    def has_measured(self, index: str, specifications: Sequence[str], language: str | None) -> bool:
        """Whether all of these got their b of this index before, so that it takes hardly any time."""
        return all((index, specification, language) in self._measured for specification in specifications)

    def note_measured(self, index: str, specifications: Sequence[str], language: str | None) -> None:
        """Remember that these got their b of this index."""
        for specification in specifications:
            self._measured.put((index, specification, language), True)

    def of(self, index: str) -> SetBaseline:
        """Return a function that gives metrics the b of an index.

        The index is named as signatures name it, by its content, which never changes.
        """

        def set_baseline(metric: Metric) -> Metric:
            if not isinstance(metric, Upsilon) or not metric.b_is_open:
                return metric
            base = self._base(metric, index)
            return metric.with_b(base)

        return set_baseline

    def _base(self, metric: Upsilon, index: str) -> str:
        from refaug.evaluation.metric_setup.baseline import index_baseline  # noqa: PLC0415  only where an index is used

        key = (index, Signature.of(metric).full)
        base = self._baselines.get(key)
        if base is None:
            base = index_baseline(metric, self._indexes, index.partition("#")[0])
            self._baselines.put(key, base)
        return base


def baseline_advice(
    metrics: Sequence[Metric], items: Iterable[Item | BadItem], remedy: str | None = None
) -> str | None:
    """Return advice where a weighted form counts from 0 and could count from the b of the references' index.

    `remedy` replaces the command that measures b where there are no commands.
    """
    names = [metric.name for metric in metrics if isinstance(metric, Upsilon) and metric.b_is_open]
    if not names:
        return None
    specs = sorted(items.facts.indexes if isinstance(items, ItemCollection) else _indexes_of(items))
    if not specs:
        return None
    remedy = remedy or f"refaug metrics baseline {names[0]} --index {specs[0]} measures b"
    return f"{', '.join(names)} without b counts from 0, though the references are those of an index: {remedy}"


def _sources_of(items: Iterable[Item | BadItem]) -> set[Origin]:
    return {reference.source for item in items if isinstance(item, Item) for reference in item.pair.references}


def _indexes_of(items: Iterable[Item | BadItem]) -> set[str]:
    """Return the indexes that retrieved references name."""
    references = (reference for item in items if isinstance(item, Item) for reference in item.pair.references)
    named = {reference.more.get("index") for reference in references if reference.source is Origin.RETRIEVED}
    return {index for index in named if isinstance(index, str)}


# ── what metrics need ─────────────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, kw_only=True)
class MetricNeeds:
    """What a metric needs, as far as its specification tells; mistakes in it are found when the metric is built."""

    name: str
    rater: bool = False
    ruber: bool = False
    vhred: bool = False
    adem: bool = False
    judge: bool = False
    fitted: bool = False  # a fitted judge, which brings its models along
    sample: bool = False
    weigher: bool = False  # a rater that weights the references of the sample
    weighted: bool = False  # references with weights
    base: bool = False  # the b of an index

    @classmethod
    def of(cls, text: str, home: Settings | None = None) -> Self:
        """Read the needs from a specification; what a fitted judge of the home looks at is read from its manifest."""
        name, _, rest = text.strip().partition(":")
        info = METRICS.get(name)
        if info is not None and info.needs_fitted_judge:
            parts = _fitted_parts(text, home) if home is not None else []
            return cls(name=name, fitted=True, weighted=any(cls.of(part).weighted for part in parts))
        if name != "ruber" or info is None:
            weighted = info is not None and info.uses is Uses.WEIGHTED
            has_b = info is not None and any(parameter.name == "b" for parameter in info.parameters)
            base = has_b and "b" not in _parameters_of(rest)
            judge = info is not None and info.needs_judge
            weighted |= judge and _parameters_of(rest).get("refs") == "weighted"
            return cls(
                name=name,
                rater=info is not None and info.needs_rater,
                vhred=info is not None and info.needs_vhred,
                adem=info is not None and info.needs_adem,
                judge=judge,
                weighted=weighted,
                base=base,
            )
        parameters = _parameters_of(rest)
        asks_rater = _part_name(parameters.get("unreferenced", "ruber")) == "rater"
        sample = parameters.get("norm", "log") == "log" and parameters.get("range-ref", AUTO) == AUTO
        compared = METRICS.get(_part_name(parameters.get("referenced", "")))
        weighted = compared is not None and compared.uses is Uses.WEIGHTED
        return cls(
            name=name,
            rater=asks_rater,
            ruber=not asks_rater,
            sample=sample,
            weigher=sample and weighted,
            weighted=weighted,
        )


def _fitted_parts(text: str, home: Settings) -> list[str]:
    """Return the metrics that a fitted judge adds; none where it names no judge, which is refused later."""
    spec = dict(Specification.parse(text).parameters).get("model", "none").partition("#")[0]
    if spec == "none":
        return []
    versions = artefact_stores(home)["judge-fit"]
    manifest: Any = read_json(versions.folder(*versions.resolve(spec)) / MANIFEST)
    return [str(part) for part in manifest.get("metrics", ())]


def refuse_judge(needs: Sequence[MetricNeeds]) -> None:
    """Raise Usage for a metric that asks a judge, where a server or a job does not do so."""
    if asking := next((need.name for need in needs if need.judge), None):
        raise Usage(
            f"{asking} asks a judge behind an endpoint, and no such request is allowed here",
            remedy=f"POST /v1/scores where the server has judge_hosts, or refaug score ITEMS -m {asking} --judge NAME",
        )


def _parameters_of(parameters: str) -> dict[str, str]:
    return {key.strip(): text.strip() for key, _, text in (part.partition("=") for part in parameters.split(","))}


def _part_name(part: str) -> str:
    """Return the name of a part, which its parameters follow."""
    return part.partition(";")[0].strip()
