"""Specifications such as `upsilon-bleu:n=4,smooth=exp`, by which commands, requests and signatures name metrics."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Final, TypeVar

from refaug.core.errors import RefaugError, Usage
from refaug.core.installation import METRICS, load, of_package
from refaug.metrics.base import Metric
from refaug.metrics.catalogue import find, find_info
from refaug.metrics.costs import UNSTATED
from refaug.metrics.metric_info import ForcedParameters, MetricInfo
from refaug.metrics.models.model_kinds import ModelKind, ModelName, VectorOpener
from refaug.metrics.parameters import Members

_BuiltPart = TypeVar("_BuiltPart")


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
    arguments = (source,) if info.has_members or info.asks(ModelKind.VECTORS, ModelKind.ENCODER) else ()
    kind: type[Metric] = load(info.name, info.made_by)
    registration = None if info.made_by.startswith("refaug.") else of_package(METRICS, info.name, "metric")
    if registration is not None:
        from refaug.metrics.packages.watched_metrics import watched  # noqa: PLC0415  metrics of others alone

        kind = watched(kind, registration, is_separate=info.cost is UNSTATED)
    made: Callable[..., Metric] = kind
    return made(info, settings, *arguments)


# ── Metrics in the parameters of others ───────────────────────────────────────────────────────────────────────────────

BETWEEN_MEMBERS: Final = "+"


def part_of(text: str, where: str) -> Specification:
    """Read `name;key=value;key=value`: commas would end the parameter whose value this is."""
    name, *parameters = (piece.strip() for piece in text.split(";"))
    if ":" in name.partition("=")[0]:
        raise Usage(f"{where}: a colon behind the name of a part", remedy=f"{name.replace(':', ';', 1)}")
    if not name or "=" in name:
        raise Usage(f"{where}: a part begins with the name of a metric", remedy="for example pooled;refs=gold")
    if not all(parameters):
        raise Usage(f"{where}: nothing stands between two semicolons, or behind the last", remedy="pooled;refs=gold")
    if wrong := next((parameter for parameter in parameters if "=" not in parameter), None):
        raise Usage(f"{where}: {wrong!r} is not key=value", remedy="for example pooled;refs=gold")
    return built_part(where, lambda: Specification.parse(f"{name}:{','.join(parameters)}" if parameters else name))


def built_part(where: str, build_part: Callable[[], _BuiltPart]) -> _BuiltPart:
    """Build a part, and name it in errors."""
    try:
        return build_part()
    except RefaugError as error:
        raise type(error)(f"{where}: {error.message}", remedy=error.remedy) from error


def as_part(metric: Metric) -> str:
    """Write a metric as a part of another, with all of its settings."""
    settings = [f"{key}={setting}" for key, setting in metric.settings.items() if setting]
    return ";".join([metric.name, *settings])


# ── Models that specifications name ───────────────────────────────────────────────────────────────────────────────────


def model_kind_of(metric: str, key: str) -> ModelKind | None:
    """Return the kind of model that a parameter of a metric names; None where it names none."""
    info = find_info(metric)
    parameter = info.parameter(key) if info is not None else None
    return parameter.kind if isinstance(parameter, ModelName) else None


def with_values(specification: Specification, change: Callable[[str, str, str], str]) -> Specification:
    """Return the specification with every value changed, from the metric, the name of the parameter, and the value.

    The values of the parts of `ruber` and `panel` are changed, too: they stand behind the part's name, after `;`.
    """
    info = find_info(specification.name)

    def changed_setting(key: str, setting: str) -> str:
        if info is not None and isinstance(info.parameter(key), Members):
            return BETWEEN_MEMBERS.join(changed_part(key, member) for member in setting.split(BETWEEN_MEMBERS))
        return changed_part(key, setting)

    def changed_part(key: str, setting: str) -> str:
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
