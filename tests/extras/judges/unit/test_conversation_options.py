"""The orders that options of a pre-training make: sizes, windows and heads by network and preset."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path

import pytest
from refusals import refusing

from refaug.core.errors import BadInput, Usage
from refaug.core.home import Settings
from refaug.extras.judges.head_teachers import chosen_teachers, openers_for
from refaug.extras.judges.operations import PretrainVhred
from refaug.rater.adem.pretraining.targets import HeadOrder, TeacherChoice

TAUGHT = {"emotion": TeacherChoice(spec="vader", id="vader"), "meaning": TeacherChoice(spec="bag", id="bag")}


@pytest.mark.parametrize(
    ("network", "sizes", "windows", "meaning"),
    [
        ("hred", (0, 0), (3, 0.0, 2), (100_000, 4_000)),
        ("vhred", (100, 0), (3, 0.0, 2), (30_000, 128)),
        ("vhcr", (100, 100), (9, 0.25, 3), (25_000, 4_000)),
    ],
)
def test_a_network_has_the_published_sizes_weights_and_drops(
    network: str, sizes: tuple[int, int], windows: tuple[int, float, int], meaning: tuple[float, int]
) -> None:
    options = PretrainVhred(logs=("chat",), network=network, preset="paper")  # type: ignore[arg-type]
    order = options.order(threads=1, exclude=(), teachers=TAUGHT)
    assert (order.model.latent, order.model.conversation) == sizes
    assert (order.windows.turns, order.windows.sentence_drop, order.windows.least_turns) == windows
    assert order.model.turns == windows[0]
    assert (order.heads.meaning_weight, order.heads.meaning_hidden) == meaning
    assert (order.heads.emotion_weight, order.heads.emotion_hidden) == (25, 128)
    assert type(order).read(_as_json(order)) == order


def test_a_vhred_without_latent_variables_is_weighted_as_the_hred_that_it_is() -> None:
    hred, bare = (
        PretrainVhred(logs=("chat",), preset="paper", **settings).order(threads=1, exclude=(), teachers=TAUGHT)
        for settings in ({"network": "hred"}, {"latent": "none"})
    )
    assert hred == bare


def _as_json(order: object) -> dict[str, object]:
    written: dict[str, object] = json.loads(json.dumps(asdict(order)))  # type: ignore[call-overload]
    return written


def test_options_reach_the_order() -> None:
    options = PretrainVhred(
        logs=("chat",),
        network="vhcr",
        preset="small",
        conversation=7,
        sentence_drop=0.0,
        drop_by="place",
        turns=4,
        meaning_weight=0.0,
        meaning_hidden=9,
        emotion_logits="any",
        shuffled=True,
        heads_as="input",
    )
    order = options.order(threads=1, exclude=(), teachers=TAUGHT)
    assert (order.model.conversation, order.model.turns) == (7, 4)
    assert (order.windows.sentence_drop, order.windows.drop_by) == (0.0, "place")
    assert order.heads.names == ("emotion", "meaning")
    assert (order.heads.meaning_weight, order.heads.meaning_hidden) == (0.0, 9)
    assert (order.heads.is_emotion_positive, order.heads.is_shuffled, order.heads.are_input) == (False, True, True)


@pytest.mark.parametrize(
    "settings",
    [
        {"shuffled": True},
        {"emotion_logits": "any"},
        {"heads_as": "input"},
        {"emotion_weight": 1.0},
        {"emotion_hidden": 8},
        {"meaning_weight": 1.0},
        {"meaning_hidden": 8},
        {"drop_by": "place"},
        {"sentence_drop": 0.1},
        {"conversation": 7},
    ],
)
def test_a_setting_that_nothing_reads_is_refused_by_its_name(settings: dict[str, object]) -> None:
    options = PretrainVhred(logs=("chat",), **settings)  # type: ignore[arg-type]
    with refusing(Usage, field=next(iter(settings))):
        options.order(threads=1, exclude=(), teachers={})


def test_a_lexicon_has_an_absolute_path_and_must_not_change(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "words.tsv").write_text("good\tcalm\nbad\tkeen\n", "utf-8")
    settings = Settings(home=tmp_path / "home")
    chosen = chosen_teachers(settings, PretrainVhred(logs=("chat",), emotion="lexicon:words.tsv"))
    assert chosen["emotion"].spec == f"lexicon:{tmp_path / 'words.tsv'}"
    openers = openers_for(settings, HeadOrder(**chosen), threads=1)
    assert openers.emotion(chosen["emotion"].spec, ["good"]).name == chosen["emotion"].id
    (tmp_path / "words.tsv").write_text("good\tcalm\nbad\tcalm\nworse\tkeen\n", "utf-8")
    with refusing(BadInput, "words.tsv"):
        openers.emotion(chosen["emotion"].spec, ["good"])
