"""Open a fitted judge with the metrics that it adds, each bound to the models that it was fitted with."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final

import numpy as np

from refaug.core.artefacts.kinds import artefact_stores
from refaug.core.artefacts.manifests import MANIFEST
from refaug.core.errors import Conflict, Corrupt, Usage
from refaug.core.files import read_json
from refaug.core.home import Settings
from refaug.core.text.tokenizers import get_tokenizer
from refaug.evaluation.home.adems import open_stored_adem
from refaug.evaluation.home.raters import open_rater
from refaug.evaluation.home.rubers import open_ruber
from refaug.evaluation.metric_setup.combined.stored_judge import KIND, StoredJudge, judge_versions, open_judge
from refaug.evaluation.metric_setup.metric_requests import metrics_of
from refaug.evaluation.metric_setup.model_metrics import OpenModels
from refaug.evaluation.metric_setup.model_names import ModelNames
from refaug.metrics.base import Floats, Metric
from refaug.metrics.models.combined_replies import CombinedReplies
from refaug.metrics.signature import Signature
from refaug.metrics.specification import Specification

_HELD: Final = 2  # judges whose networks stay open: each is read whole, which takes a while
_DIGITS: Final = 12  # of content hashes
_ARTEFACTS: Final = {"rater": "rater", "ruber": "ruber", "adem": "adem", "sample": "index"}  # by what a metric asks
_NAMED_MODELS: Final = {"likelihood": "vhred", KIND: KIND}  # metric → the artefact that its parameter model names
_CONTENTS: Final = ("vectors", "encoder")  # details of a signature that name what a score was computed with

Bind = Callable[[Sequence[Metric], ModelNames, OpenModels], list[Metric]]


def pinned_models(home: Settings, named: Mapping[str, str | None]) -> dict[str, str | None]:
    """Return the models of a judge as `name@version#content`, so that a later publication does not change it."""
    return {model_kind: None if spec is None else _pinned(home, model_kind, spec) for model_kind, spec in named.items()}


def pinned_metric(home: Settings, text: str) -> str:
    """Return a specification with the model that it names, if any, as `name@version#content`."""
    specification = Specification.parse(text)
    kind = _NAMED_MODELS.get(specification.name)
    if kind is None:
        return text
    parameters = tuple(
        (key, _with_content(home, kind, spec) if key == "model" else spec) for key, spec in specification.parameters
    )
    return str(Specification(specification.name, parameters))


def _pinned(home: Settings, model_kind: str, spec: str) -> str:
    kind = _ARTEFACTS.get(model_kind)
    return spec if kind is None else _with_content(home, kind, spec)


def _with_content(home: Settings, kind: str, spec: str) -> str:
    name, version = artefact_stores(home)[kind].resolve(spec.partition("#")[0])
    manifest: Any = read_json(artefact_stores(home)[kind].folder(name, version) / MANIFEST)
    return f"{name}@{version}#{str(manifest.get('id', ''))[:_DIGITS]}"


@dataclass(frozen=True, kw_only=True, eq=False)
class OpenJudge:
    """A fitted judge with the networks that its metrics ask."""

    stored: StoredJudge
    models: OpenModels

    def bound(self, bind: Bind, threads: int | None) -> list[Metric]:
        """Return the metrics of the judge, bound; Conflict where one of them is not what it was fitted with."""
        names = {model_kind: _without_content(spec) for model_kind, spec in self.stored.models.items()}
        named = ModelNames(
            rater=names.get("rater"),
            ruber=names.get("ruber"),
            adem=names.get("adem"),
            sample=names.get("sample"),
            judge=names.get("judge"),
            threads=threads,
        )
        metrics = metrics_of(list(self.stored.metrics), None)
        features, signatures = len(self.stored.judge.features), self.stored.signatures
        if not len(metrics) == len(signatures) == features:
            raise Corrupt(
                f"{self.stored.name} adds {features} metrics, names {len(metrics)}, has {len(signatures)} signatures",
                remedy="fit the judge again",
            )
        bound = bind(metrics, named, self.models)
        for before, metric in zip(signatures, bound, strict=True):
            _require_same(self.stored.name, Signature.parse(before), Signature.of(metric))
        return bound


@lru_cache(maxsize=_HELD)
def _read_version(home: Settings, spec: str, threads: int | None) -> OpenJudge:
    stored = open_judge(home, spec)
    for model_kind, named in stored.models.items():
        _require_content(home, stored.name, model_kind, named)
    rater, ruber, adem = (_without_content(stored.models.get(model_kind)) for model_kind in ("rater", "ruber", "adem"))
    return OpenJudge(
        stored=stored,
        models=OpenModels(
            rater=open_rater(home, rater, threads=threads) if rater is not None else None,
            ruber=open_ruber(home, ruber, threads=threads) if ruber is not None else None,
            adem=open_stored_adem(home, adem, threads=threads) if adem is not None else None,
        ),
    )


def held_judge(home: Settings, spec: str, threads: int | None = None) -> OpenJudge:
    """Open a judge by `name`, `name@version` or as signatures write it, or return it if it was among the last ones."""
    named, _, content = spec.partition("#")
    opened = _read_version(home, "@".join(judge_versions(home).resolve(named)), threads)
    stored = opened.stored.spec.partition("#")[2]
    if content and content != stored:
        raise Conflict(
            f"the scores were made by {KIND} {spec}, and {named} is {opened.stored.spec} here",
            remedy="import the version that the signature names",
        )
    return opened


def _require_content(home: Settings, judge: str, model_kind: str, named: str | None) -> None:
    """Raise Conflict where a model of the judge has another content than the one that it was fitted with."""
    spec, _, content = (named or "").partition("#")
    kind = _ARTEFACTS.get(model_kind)
    if not content or kind is None:
        return
    at_hand = _with_content(home, kind, spec)
    if at_hand != named:
        raise Conflict(
            f"{judge} was fitted with {kind} {named}, and {spec} is {at_hand} here",
            remedy=f"import that {kind}, or fit the judge again",
        )


def _require_same(judge: str, before: Signature, now: Signature) -> None:
    """Raise Conflict where a metric has other settings, or other word vectors, than when the judge was fitted."""
    for key in dict.fromkeys([*before.settings, *now.settings]):
        if before.settings.get(key) != now.settings.get(key):
            raise Conflict(
                f"{judge} was fitted with {now.metric} of {key}:{before.settings.get(key)}, here it has "
                f"{key}:{now.settings.get(key)}",
                remedy="bring back what it was fitted with, or fit the judge again",
            )
    for key in _CONTENTS:
        if key in before.details and before.details[key] != now.details.get(key):
            raise Conflict(
                f"{judge} was fitted with {key} {before.details[key]}, and {now.details.get(key)} are here",
                remedy="bring back what it was fitted with, or fit the judge again",
            )


def _without_content(spec: str | None) -> str | None:
    return None if spec is None else spec.partition("#")[0]


# ── the metric ────────────────────────────────────────────────────────────────────────────────────────────────────────


class ReplyCombination:
    """A fitted judge that combines the values of its metrics, for one evaluation."""

    def __init__(self, stored: StoredJudge, components: Sequence[Metric]) -> None:
        self._stored = stored
        self.components = tuple(components)
        self._tokenizer = get_tokenizer(stored.judge.length_tokenizer)

    @property
    def spec(self) -> str:
        """The name, version and content of the judge."""
        return self._stored.spec

    @property
    def limits(self) -> tuple[float, float]:
        """The least and the most that a reply can get."""
        return self._stored.judge.limits

    def combine(self, values: Floats, replies: Sequence[str]) -> Floats:
        """Return the scores of replies from the values of the metrics (replies, metrics)."""
        lengths = np.array([len(tokens) for tokens in self._tokenizer.tokenize_batch(list(replies))], dtype=np.float64)
        return self._stored.judge.score(values, lengths)

    def has_seen(self, turns: Sequence[str], references: Sequence[str], reply: str) -> bool:
        """Say whether the judge was fitted to this row."""
        return self._stored.seen.contains(turns, references, reply)


def with_fitted_judges(metrics: Sequence[Metric], home: Settings, threads: int | None, bind: Bind) -> Iterator[Metric]:
    """Yield the metrics, those that need a fitted judge bound to the one that they name."""
    for metric in metrics:
        if not isinstance(metric, CombinedReplies):
            yield metric
            continue
        opened = held_judge(home, metric.model, threads)
        if asking := next((text for text in opened.stored.metrics if text.partition(":")[0] == "judge"), None):
            raise Usage(
                f"{opened.stored.name} adds {asking}, which asks an endpoint, and {metric.name} asks none",
                remedy=f"refaug judge-fit score {opened.stored.name} ITEMS",
            )
        yield metric.with_judge(ReplyCombination(opened.stored, opened.bound(bind, threads)))
