"""Signatures that were recorded parse, and ask for the settings that they were written for.

The recorded answers hold hundreds of them. A signature says its settings, and no default may take their place.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache
from types import SimpleNamespace
from typing import Any, Final
from unittest.mock import MagicMock

import pytest
from goldens import record

from refaug.metrics.catalogue import METRICS
from refaug.metrics.signature import Signature
from refaug.metrics.specification import Specification, build, settings_of
from refaug.scoring.metric_setup.signature_requests import SignatureRequest, signature_differences
from refaug.scoring.provenance import references_provenance
from refaug.scoring.settings import AugmentSettings

GROUPS: Final = ("commands-scores", "commands-sets", "http-more", "library-all", "routes")
_SILENT: Final = {"preset"}


def _lines(content: Any) -> Iterator[str]:
    if isinstance(content, dict):
        for name, inner in content.items():
            if name in ("signature", "signature_full") and isinstance(inner, str):
                yield inner.replace("refaug:VERSION", "refaug:0.1.0").replace("full:HASH", "full:5be01c77aa09")
            yield from _lines(inner)
    elif isinstance(content, list):
        for inner in content:
            yield from _lines(inner)


@cache
def recorded() -> list[str]:
    """Every signature among the recorded answers, each once."""
    lines = [line for group in GROUPS for line in _lines(record.recorded(group))]
    return [line for line in dict.fromkeys(lines) if "|refaug:" in line and line.partition("|")[0] in METRICS]


def own_settings(signature: Signature) -> dict[str, str]:
    names = {parameter.name for parameter in METRICS[signature.metric].parameters}
    return {key: text for key, text in signature.settings.items() if key in names}


def settings_asked_for(request: SignatureRequest) -> Mapping[str, str]:
    """The settings of the metric that a request asks for, with every default filled in."""
    specification = Specification.parse(request.metric)
    info = METRICS[specification.name]
    return settings_of(info, specification, {}) if info.needs else build(specification).settings


def test_there_are_signatures_of_most_metrics_with_and_without_references() -> None:
    signatures = [Signature.parse(line) for line in recorded()]
    assert len({signature.metric for signature in signatures}) >= 15
    assert {"index" in signature.settings for signature in signatures} == {True, False}
    assert {bool(signature.details) for signature in signatures} == {True, False}


def test_what_was_recorded_reads_back_byte_by_byte() -> None:
    for line in recorded():
        if "|full:" not in line:
            assert Signature.parse(line).full == line
        assert Signature.parse(line).refaug == "0.1.0"


def test_what_was_recorded_asks_for_the_metric_that_it_was_written_for() -> None:
    for line in recorded():
        signature = Signature.parse(line)
        asked, own = settings_asked_for(SignatureRequest.parse(line)), own_settings(signature)
        assert own, line
        assert {key: asked[key] for key in own} == own, line
        added = {key: text for key, text in asked.items() if key not in own and text}
        defaults = {parameter.name: parameter.default for parameter in METRICS[signature.metric].parameters}
        assert {key: text for key, text in added.items() if text != str(defaults.get(key, text))} == {}, line


def test_what_was_recorded_asks_for_the_references_that_it_was_written_for() -> None:
    with_references = [line for line in recorded() if "|index:" in line]
    assert with_references
    for line in with_references:
        signature, request = Signature.parse(line), SignatureRequest.parse(line)
        own = own_settings(signature).keys() | _SILENT
        stated = {key: text for key, text in signature.settings.items() if key not in own}
        index, rater = (
            SimpleNamespace(spec=stated[kind], manifest=MagicMock(), runtime="torch") if kind in stated else None
            for kind in ("index", "rater")
        )
        assert references_provenance(index, rater, request.augmenting).settings == stated, line  # type: ignore[arg-type]
        assert (request.index, request.rater) == (
            stated["index"].partition("#")[0],
            stated["rater"].partition("#")[0] if "rater" in stated else None,
        )


FOUND: Final = "|k:15|mode:embedding-utterance|gold:one|parrot:rated|weights:rated|combine:first|cal:raw"
VERSIONS: Final = "|index:chat@2026-11-22.1#5ee77664f403|rater:base@2026-11-22.1#8e671731c65b"
BLEU: Final = "upsilon-bleu|n:2|variant:galley15|smooth:add-k[1]|bp:closest|eff:auto|case:lc|tok:word"
DETAILS: Final = (
    "|vectors.:glove@2026-11-22.1#b72d89957872|norm-words.:yes|oov.:skip|weighting.:mean|index-tok.:word|depth.:auto"
    "|near.:0.9|near-tokens.:5"
)
AS_PUBLISHED: Final = AugmentSettings(parrot="rated")


@pytest.mark.parametrize(
    ("line", "metric", "augmenting"),
    [
        (f"{BLEU}{FOUND}{VERSIONS}|full:4c221c2eedfc|refaug:0.1.0", {"smooth": "add-k[1]"}, AS_PUBLISHED),
        # with a b
        (
            f"upsilon-chrf|agg:weighted-best|keep-gold:no|lambda:0|b:0.1454421|char-order:6|word-order:0|beta:2|eps:no"
            f"|space:no|case:mixed{FOUND}{VERSIONS}{DETAILS}|refaug:0.1.0",
            {"b": "0.1454421", "char-order": "6"},
            AS_PUBLISHED,
        ),
        # with a preset's name beside its settings
        (
            "upsilon-bleu|n:2|variant:tsuta20|smooth:none|bp:closest|eff:no|case:lc|tok:word|preset:tsuta20|k:13"
            f"|mode:embedding-utterance|gold:rated|parrot:rated|weights:rated|combine:first|cal:raw{VERSIONS}"
            "|norm-words.:yes|oov.:unk|weighting.:mean|near.:0.75|near-tokens.:3|exclude-logs.:a,b|refaug:0.1.0",
            {"variant": "tsuta20", "smooth": "none", "eff": "no"},
            AugmentSettings(
                k=13,
                near=0.75,
                near_tokens=3,
                exclude_logs=("a", "b"),
                gold="rated",
                parrot="rated",
            ),
        ),
        # a parameter that is left out has its default
        (
            "rater|model:base@2026-11-22.1#8e671731c65b|target:reply|combine:mean|cal:cal|refs:golds|refaug:0.1.0",
            {"model": "base@2026-11-22.1#8e671731c65b", "combine": "mean", "cal": "cal", "turns": "1"},
            AugmentSettings(),
        ),
        # references of a log without a rater
        (
            f"{BLEU}|k:3|mode:bm25-dialog|gold:one|parrot:-0.25|weights:one|index:chat@2026-11-22.1#5ee77664f403"
            "|alpha.:0.3|epsilon.:0.2|depth.:900|refaug:0.1.0",
            {"eff": "auto"},
            AugmentSettings(
                k=3,
                mode="bm25-dialog",
                alpha=0.3,
                epsilon=0.2,
                depth=900,
                parrot=-0.25,
                weights="one",
            ),
        ),
    ],
)
def test_signatures_ask_for_what_they_say(line: str, metric: dict[str, str], augmenting: AugmentSettings) -> None:
    request = SignatureRequest.parse(line)
    asked = settings_asked_for(request)
    assert {key: asked[key] for key in metric} == metric
    assert {key: asked[key] for key in own_settings(request.signature)} == own_settings(request.signature)
    assert request.augmenting == augmenting
    assert signature_differences(Signature.parse(line), request.signature) == []
    if "|index:" in line:
        assert request.index == "chat@2026-11-22.1"
