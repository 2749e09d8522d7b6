"""`upsilon-bleu:n=4,smooth=exp`: how a metric is asked for, on the command line, in a request and in a signature."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from importlib import import_module

from core.errors import Usage
from metrics.base import Metric
from metrics.catalogue import Forced, MetricInfo, find


@dataclass(frozen=True, slots=True)
class Specification:
    """A metric's name and the parameters that were given, as they were written."""

    name: str
    given: tuple[tuple[str, str], ...] = ()

    @classmethod
    def parse(cls, text: str) -> Specification:
        """Read `name:key=value,key=value`; the first colon ends the name, so that values may hold further ones."""
        name, colon, rest = text.strip().partition(":")
        if colon and not rest:
            raise Usage(f"{text!r} ends in a colon", remedy=f"{name}, or {name}:key=value,key=value")
        given = tuple(_pair(part, text) for part in rest.split(",")) if rest else ()
        keys = [key for key, _ in given]
        if twice := next((key for key in keys if keys.count(key) > 1), None):
            raise Usage(f"{text!r} gives {twice} twice", remedy="give every parameter once")
        return cls(name, given)

    def __str__(self) -> str:
        return self.name + (":" + ",".join(f"{key}={value}" for key, value in self.given) if self.given else "")


def _pair(part: str, text: str) -> tuple[str, str]:
    key, equals, value = part.partition("=")
    if not (equals and key.strip() and value.strip()):
        raise Usage(f"{part!r} in {text!r} is not key=value", remedy="for example delta-bleu:n=4,smooth=exp")
    return key.strip(), value.strip()


def build(specification: Specification | str, defaults: Mapping[str, str] | None = None) -> Metric:
    """Make the metric; `defaults` replace a parameter's own default where the metric has that parameter."""
    asked = Specification.parse(specification) if isinstance(specification, str) else specification
    info = find(asked.name)
    metric: Metric = import_module(info.module).build(info, settings_of(info, asked, defaults or {}))
    return metric


def settings_of(info: MetricInfo, asked: Specification, defaults: Mapping[str, str]) -> dict[str, str]:
    """Every parameter of the metric with its canonical value, in the order of the signature."""
    given = _with_smooth_value(dict(asked.given), info)
    names = [parameter.name for parameter in info.parameters]
    if unknown := [key for key in given if key not in names]:
        extra = ", smooth-value" if "smooth" in names else ""
        raise Usage(f"{info.name} has no parameter {unknown[0]!r}", remedy=f"it has: {', '.join(names)}{extra}")
    settings = {
        parameter.name: parameter.parse(text, info.name) if text else ""
        for parameter in info.parameters
        for text in [given.get(parameter.name, defaults.get(parameter.name, parameter.default))]
    }
    for forced in info.forced:
        if settings[forced.name] == forced.value:
            settings |= _forced(forced, {key: settings[key] for key in given}, info.name)
    return settings


def _forced(forced: Forced, given: Mapping[str, str], metric: str) -> Mapping[str, str]:
    """What the value leaves no choice of; whoever asked for something else is told so."""
    for key, only in forced.others.items():
        if given.get(key, only) != only:
            raise Usage(
                f"{metric}: {forced.name}={forced.value} has {key}={only}, not {given[key]}", remedy=f"leave {key} out"
            )
    return forced.others


def _with_smooth_value(given: dict[str, str], info: MetricInfo) -> dict[str, str]:
    """`smooth=floor,smooth-value=0.2` is another way to write `smooth=floor[0.2]`."""
    smoothing = info.parameter("smooth")
    if smoothing is None or "smooth-value" not in given:
        return given
    value = given.pop("smooth-value")
    method = given.get("smooth", smoothing.default)
    if "[" in method:
        raise Usage(f"{info.name}: smooth={method} has its value already", remedy="leave smooth-value out")
    return {**given, "smooth": f"{method}[{value}]"}
