"""Specifications such as `upsilon-bleu:n=4,smooth=exp`, by which commands, requests and signatures name metrics."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache

from refaug.core.errors import Usage
from refaug.core.installation import METRICS, load, of_package
from refaug.metrics.base import Metric
from refaug.metrics.catalogue import find, find_info
from refaug.metrics.costs import UNSTATED
from refaug.metrics.metric_info import ForcedParameters, MetricInfo
from refaug.metrics.models.model_kinds import ModelKind, ModelName, VectorOpener
from refaug.metrics.packages.watched_metrics import watched


@dataclass(frozen=True, slots=True)
class Specification:
    """A metric's name and its explicit parameters, as they were written."""

    name: str
    parameters: tuple[tuple[str, str], ...] = ()

    @staticmethod
    @lru_cache(maxsize=512)  # requests repeat the same specifications, each in several steps
    def parse(text: str) -> Specification:
        """Read `name:key=value,key=value`; the first colon ends the name, so that values may contain further colons."""
        name, colon, rest = text.strip().partition(":")
        if colon and not rest:
            raise Usage(f"{text!r} ends in a colon", remedy=f"{name}, or {name}:key=value,key=value")
        parameters = tuple(_pair(part, text) for part in _named_first(name, rest).split(",")) if rest else ()
        keys = [key for key, _ in parameters]
        if twice := next((key for key in keys if keys.count(key) > 1), None):
            raise Usage(f"{text!r} gives {twice} twice", remedy="give every parameter once")
        return Specification(name, parameters)

    def __str__(self) -> str:
        parameters = ",".join(f"{key}={value}" for key, value in self.parameters)
        return f"{self.name}:{parameters}" if parameters else self.name


def _named_first(name: str, parameters: str) -> str:
    """Return the parameters, the first of them with its name where the metric lets it stand without one."""
    info = find_info(name)
    if info is None or info.leading is None or "=" in parameters.partition(",")[0]:
        return parameters
    return f"{info.leading}={parameters}"


def _pair(part: str, text: str) -> tuple[str, str]:
    key, equals, setting = part.partition("=")
    if not (equals and key.strip() and setting.strip()):
        raise Usage(f"{part!r} in {text!r} is not key=value", remedy="for example delta-bleu:n=4,smooth=exp")
    return key.strip(), setting.strip()


def build(
    specification: Specification | str,
    defaults: Mapping[str, str] | None = None,
    source: VectorOpener | None = None,
) -> Metric:
    """Build the metric; `defaults` replace a parameter's default where the metric has that parameter.

    `source` opens the word vectors or the encoder that it names; without it, these are paths.
    """
    parsed = Specification.parse(specification) if isinstance(specification, str) else specification
    info = find(parsed.name)
    return build_of(info, settings_of(info, parsed, defaults or {}), source)


def build_of(info: MetricInfo, settings: Mapping[str, str], source: VectorOpener | None = None) -> Metric:
    """Build the metric from checked settings."""
    arguments = (source,) if info.asks(ModelKind.VECTORS, ModelKind.ENCODER) else ()
    kind: type[Metric] = load(info.name, info.made_by)
    registration = None if info.made_by.startswith("refaug.") else of_package(METRICS, info.name, "metric")
    if registration is not None:
        kind = watched(kind, registration, is_separate=info.cost is UNSTATED)
    made: Callable[..., Metric] = kind
    return made(info, settings, *arguments)


# ── Models that specifications name ───────────────────────────────────────────────────────────────────────────────────


def model_kind_of(metric: str, key: str) -> ModelKind | None:
    """Return the kind of model that a parameter of a metric names; None where it names none."""
    info = find_info(metric)
    parameter = info.parameter(key) if info is not None else None
    return parameter.kind if isinstance(parameter, ModelName) else None


def with_values(specification: Specification, change: Callable[[str, str, str], str]) -> Specification:
    """Return the specification with every value changed, from the metric, the name of the parameter, and the value.

    The values of the parts of `ruber` are changed, too: they stand behind the part's name, after `;`.
    """

    def changed_setting(key: str, setting: str) -> str:
        first, *parameters = (part.strip() for part in setting.split(";"))
        inner = [[side.strip() for side in parameter.partition("=")] for parameter in parameters]
        changed = (f"{name}{equals}{change(first, name, text)}" for name, equals, text in inner)
        return ";".join([change(specification.name, key, first), *changed])

    settings = tuple((key, changed_setting(key, setting)) for key, setting in specification.parameters)
    return specification if settings == specification.parameters else Specification(specification.name, settings)


def named_models(specification: Specification) -> list[tuple[ModelKind, str]]:
    """Return the models that a specification names, its parts included, each with its kind."""
    named = list[tuple[ModelKind, str]]()

    def note(metric: str, key: str, setting: str) -> str:
        kind = model_kind_of(metric, key)
        if kind is not None and setting:
            named.append((kind, setting))
        return setting

    with_values(specification, note)
    return list(dict.fromkeys(named))


# ── Settings ──────────────────────────────────────────────────────────────────────────────────────────────────────────


def settings_of(info: MetricInfo, specification: Specification, defaults: Mapping[str, str]) -> dict[str, str]:
    """Return every parameter of the metric with its canonical value, in the order of the signature."""
    explicit = _with_smooth_value(dict(specification.parameters), info)
    names = [parameter.name for parameter in info.parameters]
    if unknown := [key for key in explicit if key not in names]:
        extra = ", smooth-value" if "smooth" in names else ""
        raise Usage(f"{info.name} has no parameter {unknown[0]!r}", remedy=f"it has: {', '.join(names)}{extra}")
    settings = {
        parameter.name: parameter.parse(text, info.name) if text else ""
        for parameter in info.parameters
        for text in [explicit.get(parameter.name, defaults.get(parameter.name, parameter.default))]
    }
    for forced in info.forced:
        if settings[forced.name] == forced.value:
            settings |= _forced(forced, {key: settings[key] for key in explicit}, info.name)
    return settings


def _forced(forced: ForcedParameters, explicit: Mapping[str, str], metric: str) -> Mapping[str, str]:
    """Return the parameters that the value fixes; Usage where one of them is set to something else."""
    for key, only in forced.others.items():
        if explicit.get(key, only) != only:
            raise Usage(
                f"{metric}: {forced.name}={forced.value} has {key}={only}, not {explicit[key]}",
                remedy=f"leave {key} out",
            )
    return forced.others


def _with_smooth_value(explicit: dict[str, str], info: MetricInfo) -> dict[str, str]:
    """Rewrite `smooth=floor,smooth-value=0.2` as `smooth=floor[0.2]`."""
    smoothing = info.parameter("smooth")
    if smoothing is None or "smooth-value" not in explicit:
        return explicit
    smooth_value = explicit.pop("smooth-value")
    method = explicit.get("smooth", smoothing.default)
    if "[" in method:
        raise Usage(f"{info.name}: smooth={method} has its value already", remedy="leave smooth-value out")
    return {**explicit, "smooth": f"{method}[{smooth_value}]"}
