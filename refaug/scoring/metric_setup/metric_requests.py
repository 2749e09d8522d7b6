"""Build the metrics that a command or a request asks for, give them the baseline of an index, and tell what they need.

`MetricRequest` says what a specification asks for before anything is opened.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import chain
from pathlib import Path
from typing import Any, Final, Self

from refaug.core.artefacts.kinds import artefact_stores
from refaug.core.artefacts.manifests import MANIFEST
from refaug.core.artefacts.versions import Versions
from refaug.core.errors import NotFound, Usage
from refaug.core.files import read_json
from refaug.core.home import Settings
from refaug.core.memory import BoundedCache
from refaug.core.progress import Progress
from refaug.core.records import Item, Origin
from refaug.core.text.tokenizers import default_tokenizer
from refaug.metrics.base import Metric
from refaug.metrics.catalogue import find, find_info
from refaug.metrics.metric_info import MetricInfo, Uses
from refaug.metrics.models.model_kinds import BUILT_IN_RUBRICS, ModelKind, ModelName, VectorOpener
from refaug.metrics.parameters import AUTO, Members
from refaug.metrics.signature import Signature
from refaug.metrics.specification import (
    BETWEEN_MEMBERS,
    Specification,
    build,
    model_kind_of,
    named_models,
    with_values,
)
from refaug.metrics.upsilon import Upsilon, open_without_b
from refaug.scoring.items import BadItem
from refaug.scoring.metric_setup.model_registry import ModelRegistry
from refaug.scoring.settings import REFAUG_1
from refaug.scoring.spooled_items.item_collection import ItemCollection

_CACHE_SIZE: Final = 1_000  # entries, of a number and three words each

_SHARED_METRICS: Final[BoundedCache[tuple[str, ...], Metric]] = BoundedCache(256)
# parameters that name a file or folder, each with the values that name none of a user
_FILES: Final = {"wordnet": {"none", "/usr/share/wordnet"}, "rubric": BUILT_IN_RUBRICS, "followups": {"default"}}
_MEASURED: Final = frozenset({"b", "referenced", "unreferenced", "range-ref", "range-unref"})  # and models in them
MODEL: Final = "sentencepiece:"

SetBaseline = Callable[[Metric], Metric]


def default_metric(items: Iterable[Item | BadItem], *, weighted: bool = False) -> str:
    """Return the metric that the references of the items are meant for; with `weighted` it looks at weights."""
    return default_metric_of(
        items.sources if isinstance(items, ItemCollection) else _sources_of(items), weighted=weighted
    )


def default_metric_of(sources: Collection[Origin], *, weighted: bool = False) -> str:
    """Return the metric that references of these sources are meant for."""
    if Origin.RETRIEVED in sources or Origin.PARROT in sources:
        return "upsilon-bleu"
    return "delta-bleu" if weighted or Origin.SUPPLIED in sources else "multi-bleu"


def metrics_of(
    specifications: Sequence[str],
    language: str | None,
    by_default: Mapping[str, str] | None = None,
    set_baseline: SetBaseline | None = None,
    *,
    source: VectorOpener | None = None,
) -> list[Metric]:
    """Build the metrics of the specifications, each only once, with the vectors of the source.

    `by_default` are parameters that other options or fields set. `set_baseline` gives a b to a weighted form that was
    requested without one; without `set_baseline` that b is 0.
    """
    tokenizer = default_tokenizer(language or "")  # `word` is each metric's own default or, as for ROUGE, worse than it
    defaults = {**(by_default or {}), **({"tok": tokenizer} if tokenizer != "word" else {})}
    metrics = [_metric_of(text, defaults, source) for text in specifications]
    if set_baseline is not None:
        metrics = [set_baseline(metric) for metric in metrics]
    if len(metrics) == 1:
        return metrics
    by_signature = {Signature.of(metric).full: metric for metric in metrics}
    return list(by_signature.values())


def _metric_of(text: str, defaults: Mapping[str, str], source: VectorOpener | None) -> Metric:
    """Build a metric, or return that of an earlier request where all requests may share it."""
    key = (text, *chain.from_iterable(defaults.items()))
    shared = _SHARED_METRICS.get(key)
    if shared is None:
        specification = Specification.parse(text)
        shared = open_without_b(build(specification, defaults, source), specification)
        if shared.is_shared:
            _SHARED_METRICS.put(key, shared)
    return shared


# ── Files that metrics name ───────────────────────────────────────────────────────────────────────────────────────


def resolve_files(specifications: Sequence[str], resolve: Callable[[str], Path]) -> tuple[str, ...]:
    """Return the specifications with every file that they name replaced by the path that `resolve` returns.

    `resolve` raises where a file may not be read: it decides which files metrics from another machine may name.
    """

    def value_of(metric: str, key: str, setting: str) -> str:
        del metric
        if setting.startswith(MODEL):
            return f"{MODEL}{resolve(setting.removeprefix(MODEL))}"
        name = setting if key == "wordnet" else setting.partition("#")[0]
        return str(resolve(setting)) if key in _FILES and name not in _FILES[key] else setting

    return tuple(str(with_values(Specification.parse(text), value_of)) for text in specifications)


# ── Baselines ─────────────────────────────────────────────────────────────────────────────────────────────────────


def baseline_setter(indexes: Versions, index: str, progress: Progress) -> SetBaseline:
    """Return a function that gives metrics the b of an index; `index` is named as signatures name it."""
    from refaug.scoring.metric_setup.baseline import with_index_baseline  # noqa: PLC0415  only where an index is used

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
        from refaug.scoring.metric_setup.baseline import index_baseline  # noqa: PLC0415  only where an index is used

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
    specs = sorted(items.indexes if isinstance(items, ItemCollection) else _indexes_of(items))
    if not specs:
        return None
    remedy = remedy or f"refaug score metrics baseline {names[0]} --index {specs[0]} measures b"
    return f"{', '.join(names)} without b counts from 0, though the references are those of an index: {remedy}"


def _sources_of(items: Iterable[Item | BadItem]) -> set[Origin]:
    return {reference.source for item in items if isinstance(item, Item) for reference in item.references}


def _indexes_of(items: Iterable[Item | BadItem]) -> set[str]:
    """Return the indexes that retrieved references name."""
    references = (reference for item in items if isinstance(item, Item) for reference in item.references)
    named = {reference.more.get("index") for reference in references if reference.source is Origin.RETRIEVED}
    return {index for index in named if isinstance(index, str)}


# ── What metrics need ─────────────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, kw_only=True)
class NamedModel:
    """A model that a metric needs, and how its specification names it."""

    metric: str
    parameter: ModelName
    key: str  # of the parameter, with the part of the metric that it belongs to
    spec: str  # empty: it is not named

    @property
    def is_sampled(self) -> bool:
        """Whether it is an index whose log is sampled."""
        return self.parameter.kind is ModelKind.INDEX

    def error(self) -> Usage:
        """Return the error of a model that is not named."""
        return self.parameter.missing(self.metric, self.key)


@dataclass(frozen=True, kw_only=True)
class MetricRequest:
    """What a specification asks for, before anything is opened; mistakes in it are found when the metric is built."""

    name: str
    models: tuple[NamedModel, ...] = ()
    weighs: bool = False  # whether references of a sampled log are weighted
    weighted: bool = False  # whether references with weights are looked at
    base: bool = False  # whether the b of an index is needed
    judging: tuple[str, ...] = ()  # specifications of metrics that need a judge: its own, or its parts'

    @classmethod
    def of(cls, text: str, home: Settings | None = None) -> Self:
        """Read a specification; what a fitted judge of the home looks at is read from its manifest."""
        request = cls._of_text(text)
        fitted = [model for model in request.models if model.parameter.kind is ModelKind.FITTED_JUDGE]
        if not fitted or home is None:
            return request
        parts = [cls._of_text(part) for judge in fitted for part in _fitted_parts(judge.spec, home)]
        # its other models are named by version; a judge behind an endpoint needs leave wherever it is asked
        judges = [model for part in parts for model in part.models if model.parameter.kind is ModelKind.JUDGE]
        return replace(
            request,
            models=(*request.models, *judges),
            weighted=request.weighted or any(part.weighted for part in parts),
            judging=(*request.judging, *(text for part in parts for text in part.judging)),
        )

    @classmethod
    @lru_cache(maxsize=512)  # requests repeat the same specifications, each in several steps
    def _of_text(cls, text: str) -> Self:
        specification = _read(text)
        info = find_info(specification.name)
        if info is None:
            return cls(name=specification.name)
        parameters = dict(specification.parameters)
        if (listed := next((each for each in info.parameters if isinstance(each, Members)), None)) is not None:
            return cls._of_members(info.name, listed.name, parameters.get(listed.name, ""))
        models = tuple(_models_of(info, parameters))
        if info.asks(ModelKind.RUBER):
            compared = find_info(_part_name(parameters.get("referenced", "")))
            weighted = compared is not None and compared.uses is Uses.WEIGHTED
            samples = any(model.parameter.kind is ModelKind.INDEX for model in models)
            return cls(name=info.name, models=models, weighs=samples and weighted, weighted=weighted)
        weighted = info.uses is Uses.WEIGHTED
        weighted |= info.asks(ModelKind.JUDGE) and parameters.get("refs") == "weighted"
        base = info.parameter("b") is not None and "b" not in parameters
        judging = (text,) if info.asks(ModelKind.JUDGE) else ()
        return cls(name=info.name, models=models, weighted=weighted, base=base, judging=judging)

    @classmethod
    def _of_members(cls, name: str, key: str, text: str) -> Self:
        """Return what the members of a panel ask for together."""
        members = [cls._of_text(part.replace(";", ":", 1).replace(";", ",")) for part in text.split(BETWEEN_MEMBERS)]
        return cls(
            name=name,
            models=tuple(
                replace(model, metric=name, key=f"{key}={member.name};{model.key}")
                for member in members
                for model in member.models
            ),
            weighs=any(member.weighs for member in members),
            weighted=any(member.weighted for member in members),
            judging=tuple(text for member in members for text in member.judging),
        )

    def asks(self, *kinds: ModelKind) -> bool:
        """Whether a model of one of these kinds is needed."""
        return any(model.parameter.kind in kinds for model in self.models)

    def unnamed(self, kind: ModelKind) -> NamedModel | None:
        """Return the model of a kind that is needed and not named."""
        return next((model for model in self.models if model.parameter.kind is kind and not model.spec), None)

    @property
    def rates_by_default(self) -> bool:
        """Whether the rater that no metric names is asked: about replies, or about references of a sampled log."""
        return self.weighs or self.unnamed(ModelKind.RATER) is not None

    @property
    def samples(self) -> bool:
        """Whether the log of an index is sampled."""
        return self.asks(ModelKind.INDEX)


def require_models(requests: Iterable[MetricRequest], *, rater: str | None, index: str | None) -> None:
    """Raise Usage for the first metric that needs a model and names none; rater and index have a default."""
    by_default = {ModelKind.RATER: rater, ModelKind.INDEX: index}
    for request in requests:
        for model in request.models:
            if not model.spec and by_default.get(model.parameter.kind) is None:
                raise model.error()


def require_index_used(requests: Sequence[MetricRequest]) -> None:
    """Raise Usage where references of an index are found, and no metric looks at them."""
    if requests and not any(request.weighted or request.unnamed(ModelKind.INDEX) is not None for request in requests):
        raise Usage(
            "an index is searched, and no metric looks at weighted references", remedy="upsilon-bleu, or no index"
        )


def require_same_encoder(requests: Iterable[MetricRequest], index: str, home: Settings) -> None:
    """Raise Usage, before anything is searched, where refaug-1 compares by another encoder than the index has.

    An index or an encoder that is not there is left to those that open it.
    """
    from refaug.indexer.manifest import IndexManifest  # noqa: PLC0415
    from refaug.metrics.embeddings.recommended import own_calibration, require_found_by  # noqa: PLC0415  numpy

    encoders = {
        model.spec or own_calibration().encoder
        for request in requests
        if request.name in REFAUG_1.metrics
        for model in request.models
    }
    indexes = artefact_stores(home)["index"]
    for encoder in sorted(encoders):
        try:
            vectors = IndexManifest.read(indexes.folder(*indexes.resolve(index.partition("#")[0]))).vectors
            pinned = ModelRegistry(home).pinned(ModelKind.ENCODER, encoder)
        except NotFound:
            return
        if vectors.kind == "encoder":
            require_found_by(pinned, vectors.spec)


def pinned_metric(registry: ModelRegistry, text: str) -> str:
    """Return a specification with the models that it names as `name@version#content`."""

    def pinned_value(metric: str, key: str, setting: str) -> str:
        kind = model_kind_of(metric, key)
        return setting if kind is None else registry.pinned(kind, setting)

    return str(with_values(Specification.parse(text), pinned_value))


def stored_specification(registry: ModelRegistry, text: str, bound: Metric) -> str:
    """Return what builds a bound metric again, from whatever folder: with its models by version and content.

    A file that is no model, such as a rubric, is named by its whole path; vectors and judges must be those of the home.
    """
    named = dict(Specification.parse(text).parameters)
    specification = Signature.of(bound).specification()
    for kind, spec in named_models(specification):
        if not registry.stores(kind, spec):
            raise Usage(
                f"{text}: {kind} {spec} is a file, and only models of the home are stored",
                remedy="put it into judges/ of the home"
                if kind is ModelKind.JUDGE
                else f"refaug index {kind} import NAME FILE",
            )
    settings = (
        (key, _whole_path(named[key]) if key in _FILES else setting)
        for key, setting in specification.parameters
        if key in named or key in _MEASURED or model_kind_of(specification.name, key) is not None
    )
    return str(Specification(specification.name, tuple(settings)))


def _whole_path(setting: str) -> str:
    path = Path(setting)
    return str(path.absolute()) if "/" in setting and path.exists() else setting


def _read(text: str) -> Specification:
    try:
        return Specification.parse(text)
    except Usage:  # its error comes when the metric is built
        return Specification(text.strip().partition(":")[0])


def _models_of(info: MetricInfo, parameters: Mapping[str, str]) -> Iterator[NamedModel]:
    """Yield the models that must be there: of `ruber`, those of its parts, and an index only where ranges are open."""
    for parameter in info.models:
        spec = parameters.get(parameter.name, "")
        if info.asks(ModelKind.RUBER):
            if parameter.kind is ModelKind.RUBER and _part_name(parameters.get("unreferenced", "ruber")) == "rater":
                rater, key = find("rater").models[0], "unreferenced=rater;model"
                spec = _part_parameters(parameters["unreferenced"]).get("model", "")
                yield NamedModel(metric=info.name, parameter=rater, key=key, spec=spec)
                continue
            if parameter.kind is ModelKind.INDEX and not _samples_log(parameters):
                continue
            if parameter.kind is ModelKind.VECTORS:
                continue  # only some parts need them, which the metric itself says
        yield NamedModel(metric=info.name, parameter=parameter, key=parameter.name, spec=spec or parameter.default)


def _samples_log(parameters: Mapping[str, str]) -> bool:
    return parameters.get("norm", "log") == "log" and parameters.get("range-ref", AUTO) == AUTO


def _fitted_parts(spec: str, home: Settings) -> list[str]:
    """Return the metrics that a fitted judge adds; none where it names no judge, which is refused later."""
    if not spec:
        return []
    versions = artefact_stores(home)["judge-fit"]
    manifest: Any = read_json(versions.folder(*versions.resolve(spec.partition("#")[0])) / MANIFEST)
    return [str(part) for part in manifest.get("metrics", ())]


def refuse_judge(requests: Sequence[MetricRequest]) -> None:
    """Raise Usage for a metric that asks a judge, where a server or a job does not do so."""
    if asking := next((request.name for request in requests if request.asks(ModelKind.JUDGE)), None):
        raise Usage(
            f"{asking} needs a judge behind an endpoint, which is not allowed here",
            remedy=f"POST /v1/scores where the server has judge_hosts, or refaug score ITEMS -m {asking}:model=NAME",
        )


def _part_name(part: str) -> str:
    """Return the name of a part, which its parameters follow."""
    return part.partition(";")[0].strip()


def _part_parameters(part: str) -> dict[str, str]:
    """Return the parameters of a part, which stand behind its name."""
    pairs = (parameter.partition("=") for parameter in part.split(";")[1:])
    return {key.strip(): text.strip() for key, _, text in pairs}
