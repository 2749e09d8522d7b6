"""Presets: what they set, what contradicts them, and when a signature names one."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from refusals import refusing

from refaug.core.errors import Usage
from refaug.core.options.decoding import as_values, decode
from refaug.core.records import Item
from refaug.indexer.vectors.sentence_vectors import SentenceSettings
from refaug.metrics.specification import build
from refaug.operations.indexes import BuildIndex
from refaug.scoring.augmentation import require_preset_index
from refaug.scoring.evaluate import signature_of
from refaug.scoring.provenance import Provenance
from refaug.scoring.settings import TSUTA20, AugmentSettings, find_preset

PRESET_METRIC = "upsilon-bleu:n=2,variant=tsuta20,smooth=none,bp=closest,eff=no"
OTHERS = {
    "k": 15,
    "mode": "bm25-utterance",
    "gold": "one",
    "parrot": "off",
    "weights": "one",
    "combine": "max",
    "calibrated": True,
}
PROVENANCE = Provenance(
    settings={
        "k": "13",
        "mode": "embedding-utterance",
        "gold": "rated",
        "parrot": "rated",
        "weights": "rated",
        "combine": "first",
        "cal": "raw",
        "index": "chat@2026-05-01.1#0123456789ab",
        "rater": "base@2026-05-01.1#ba9876543210",
    },
    details={"norm-words": "yes", "oov": "unk", "weighting": "mean", "depth": "auto"},
)


def test_the_preset_sets_what_the_released_code_sets() -> None:
    settings = AugmentSettings(preset="tsuta20")
    assert (settings.k, settings.mode) == (13, "embedding-utterance")
    assert (settings.gold, settings.parrot, settings.weights) == ("rated", "rated", "rated")
    assert (settings.combine, settings.calibration) == ("first", "raw")
    metric = build(TSUTA20.specification("upsilon-bleu"))
    chosen = {key: metric.settings[key] for key in ("n", "variant", "smooth", "bp", "eff")}
    assert chosen == {"n": "2", "variant": "tsuta20", "smooth": "none", "bp": "closest", "eff": "no"}


def test_a_preset_of_another_name_is_refused() -> None:
    assert find_preset(None) is None
    with refusing(Usage, "'tsuta'", "tsuta20, refaug-1"):
        find_preset("tsuta")


@pytest.mark.parametrize(("name", "stated"), OTHERS.items())
def test_contradicting_settings_are_refused_by_both_names(name: str, stated: Any) -> None:
    own = TSUTA20.references[name]
    with refusing(Usage, f"{name}={stated}", "tsuta20", f"{name}={own}"):
        decode(AugmentSettings, {"preset": "tsuta20", name: stated})


def test_agreeing_settings_and_those_it_leaves_open_are_fine() -> None:
    by_preset = decode(AugmentSettings, {"preset": "tsuta20"})
    assert by_preset == AugmentSettings(preset="tsuta20")
    search = decode(AugmentSettings, {"preset": "tsuta20", "k": 13, "near": 0.5, "exclude_logs": ["old"]})
    assert (search.k, search.near, search.exclude_logs) == (13, 0.5, ("old",))
    stored = as_values(by_preset)
    assert {name: stored[name] for name in OTHERS} == dict(TSUTA20.references)
    assert decode(AugmentSettings, stored) == by_preset  # a job is read back from rows


def test_a_preset_counts_as_stated_even_where_a_setting_is_the_default() -> None:
    with refusing(Usage, "k=15", "tsuta20", "k=13"):
        decode(AugmentSettings, {"preset": "tsuta20", "k": 15})


def test_a_job_builds_an_index_with_the_preset_or_refuses() -> None:
    order = decode(BuildIndex, {"logs": ["chat"], "preset": "tsuta20"})
    assert (order.norm_words, order.oov, order.weighting) == (True, "unk", "mean")
    for other, *facts in (
        ({"oov": "skip"}, "oov=skip", "oov=unk"),
        ({"weighting": "sif"}, "weighting=sif", "weighting=mean"),
        ({"encoder": "inbox/encoder"}, "encoder"),
    ):
        with refusing(Usage, "tsuta20", *facts):
            decode(BuildIndex, {"logs": ["chat"], "preset": "tsuta20", **other})


@pytest.mark.parametrize(
    ("text", "specification"),
    [
        ("upsilon-bleu", PRESET_METRIC),
        ("upsilon-bleu:tok=13a", PRESET_METRIC.replace(":", ":tok=13a,")),
        ("delta-bleu:n=2,eff=no", "delta-bleu:n=2,eff=no,variant=tsuta20,smooth=none,bp=closest"),
        ("bleu", "bleu"),
        ("upsilon-chrf:n=4", "upsilon-chrf:n=4"),
    ],
)
def test_weighted_bleu_gets_the_parameters_of_the_preset(text: str, specification: str) -> None:
    assert TSUTA20.specification(text) == specification


def test_a_metric_that_contradicts_the_preset_is_refused() -> None:
    for text, *facts in (
        ("upsilon-bleu:n=4", "n=4", "n=2"),
        ("delta-bleu:smooth=exp", "smooth=exp", "smooth=none"),
        ("upsilon-bleu:variant=galley15", "variant=galley15"),
    ):
        with refusing(Usage, "tsuta20", *facts):
            TSUTA20.specification(text)
    TSUTA20.require_effect(["bleu", "upsilon-bleu:tok=13a"])
    with refusing(Usage, "tsuta20"):
        TSUTA20.require_effect(["bleu", "upsilon-chrf"])


def index_of(kind: str = "words", **sentence: Any) -> Any:
    settings = SentenceSettings(**{"norm_words": True, "oov": "unk", "weighting": "mean", **sentence})
    logs, vectors = (SimpleNamespace(name="chat"), SimpleNamespace(name="more")), SimpleNamespace(kind=kind)
    return SimpleNamespace(spec="chat@1#0123", manifest=SimpleNamespace(logs=logs, sentence=settings, vectors=vectors))


def test_an_index_built_otherwise_is_refused_with_the_command_that_helps() -> None:
    settings = AugmentSettings(preset="tsuta20")
    require_preset_index(index_of(), settings)
    require_preset_index(index_of(oov="skip"), AugmentSettings())
    for index, *facts in (
        (index_of(oov="skip"), "chat@1", "oov=skip"),
        (index_of(weighting="sif"), "weighting=sif", "weighting=mean"),
        (index_of(norm_words=False), "norm_words=False", "norm_words=True"),
        (index_of("encoder"), "chat@1", "encoder"),
    ):
        with refusing(Usage, *facts, "refaug index build chat more --name NAME --preset tsuta20"):
            require_preset_index(index, settings)


def item_with(provenance: str) -> Item:
    return Item(id="d1", turns=("hi",), provenance=provenance)


def test_items_whose_references_were_found_otherwise_are_refused() -> None:
    TSUTA20.require_items([item_with(""), item_with(PROVENANCE.line)])
    for name, other in (("k", "15"), ("gold", "one"), ("combine", "max"), ("cal", "cal")):
        changed = replace(PROVENANCE, settings={**PROVENANCE.settings, name: other})
        with refusing(Usage, f"{name}={other}", "tsuta20"):
            TSUTA20.require_items([item_with(PROVENANCE.line), item_with(changed.line)])
    skipping = replace(PROVENANCE, details={**PROVENANCE.details, "oov": "skip"})
    with refusing(Usage, "oov=skip"):
        TSUTA20.require_items([item_with(skipping.line)])


def test_a_signature_names_the_preset_however_it_was_stated() -> None:
    signature = signature_of(build(PRESET_METRIC), PROVENANCE)
    assert signature.settings["preset"] == "tsuta20"
    assert signature.short.index("|preset:tsuta20|") < signature.short.index("|k:13|")
    assert signature_of(build("upsilon-bleu:variant=tsuta20"), PROVENANCE).full == signature.full
    for metric, fields in (
        ("upsilon-bleu", PROVENANCE),
        ("upsilon-bleu:variant=tsuta20,n=3", PROVENANCE),
        ("upsilon-chrf", PROVENANCE),
        (PRESET_METRIC, replace(PROVENANCE, settings={**PROVENANCE.settings, "k": "12"})),
        (PRESET_METRIC, replace(PROVENANCE, details={**PROVENANCE.details, "oov": "skip"})),
        (PRESET_METRIC, Provenance()),
    ):
        assert "preset" not in signature_of(build(metric), fields).settings


def test_the_page_of_the_preset_lists_every_setting() -> None:
    page = (Path(__file__).parents[3] / "docs" / "internals" / "bleu.md").read_text("utf-8")
    for name, setting in {**TSUTA20.references, **TSUTA20.sentence, **TSUTA20.metric}.items():
        shown = str(setting).lower() if isinstance(setting, bool) else setting
        row = f"| `{name}` | `{shown}` |"
        assert row in page, row
