"""Utterances that a rater did not learn from: the same ones again, out of the logs, and no others."""

from __future__ import annotations

import hashlib
import random
from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest
from indexes import add_to_log, pairs_of
from refusals import refusing

from refaug.core.errors import Corrupt, NotFound
from refaug.core.progress import Silent
from refaug.core.records import Item
from refaug.core.text.normalisation import normalise
from refaug.indexer.index_folders import Places
from refaug.logs.manifest import MANIFEST
from refaug.logs.pairs import SharedSettings, text_key
from refaug.logs.store import StoredLog
from refaug.rater.training.corpus import held_out
from refaug.rater.training.examples import ExampleSettings

UTTERANCES = 300
Row = tuple[str, str]


def rows_of(first: int, last: int) -> list[Row]:
    """Three responses to each utterance, and one utterance with only one."""
    asked = [f"where do you go on day {number}" for number in range(first, last)]
    found = [(text, f"to place {place} from {text[-3:]}") for text in asked for place in range(3)]
    return [*found, (f"who has only one answer in {first}", "i have")]


def drawn(utterance: str, seed: int) -> float:
    """As the split is described: a keyed hash of the normalised utterance, from 0 to 1."""
    name = text_key(normalise(utterance)).to_bytes(8, "little")
    digest = hashlib.blake2b(name, key=str(seed).encode(), digest_size=8).digest()
    return int.from_bytes(digest, "little") / 2**64


def logs_of(folder: Path, *parts: Sequence[Row], name: str = "chat") -> Places:
    places = Places.under(folder)
    for part in parts:
        add_to_log(places, name, pairs_of(*part, log=name))
    return places


def trained_on(places: Places, *names: str, **examples: Any) -> dict[str, Any]:
    """What a rater's manifest says of its logs."""
    logs = {name: [part.sha256 for part in StoredLog.open(places.logs, name).manifest.parts] for name in names}
    settings = ExampleSettings(**{"validation_share": 0.3, "seed": 3, **examples})
    return {"logs": logs, "shared": asdict(SharedSettings()), "examples": asdict(settings)}


def asked(places: Places, details: dict[str, Any], **given: Any) -> list[Item]:
    return held_out(places.logs, places.cache, details, Silent(), memory=512 << 20, threads=1, **given)


@pytest.fixture(scope="module")
def places(tmp_path_factory: pytest.TempPathFactory) -> Places:
    return logs_of(tmp_path_factory.mktemp("held-out"), rows_of(0, UTTERANCES))


def test_held_out_pairs_are_the_validation_utterances_of_least_number(places: Places) -> None:
    numbers = {text: drawn(text, 3) for text, _ in rows_of(0, UTTERANCES)[:-1]}
    kept = sorted((text for text, number in numbers.items() if number < 0.3), key=lambda text: numbers[text])
    assert len(kept) > 60
    found = asked(places, trained_on(places, "chat"))
    assert [one.utterance for one in found] == kept[:50]
    assert [one.id for one in found] == [f"held-out-{text_key(normalise(text)):016x}" for text in kept[:50]]
    responses = rows_of(0, UTTERANCES)
    for one in found:
        (gold,) = one.references
        assert (one.utterance, gold.text) in responses
    every = asked(places, trained_on(places, "chat"), count=1_000)
    assert [one.utterance for one in every] == kept


def test_another_seed_or_share_has_others(places: Places) -> None:
    first = [one.id for one in asked(places, trained_on(places, "chat"))]
    assert [one.id for one in asked(places, trained_on(places, "chat", seed=4))] != first
    few = [one.id for one in asked(places, trained_on(places, "chat", validation_share=0.05))]
    assert len(few) < 50
    assert few == first[: len(few)]


def test_order_and_later_additions_to_a_log_do_not_change_the_pairs(places: Places, tmp_path: Path) -> None:
    rows = rows_of(0, UTTERANCES)
    random.Random(1).shuffle(rows)
    other = logs_of(tmp_path, rows[:400], rows[400:])
    stored = trained_on(other, "chat")
    expected = list(asked(places, trained_on(places, "chat")))
    assert list(asked(other, stored)) == expected
    add_to_log(other, "chat", pairs_of(*rows_of(UTTERANCES, UTTERANCES + 200)))
    assert list(asked(other, stored)) == expected


def test_several_logs_are_taken_as_one(places: Places, tmp_path: Path) -> None:
    both = logs_of(tmp_path, rows_of(0, 100), name="one")
    logs_of(tmp_path, rows_of(100, UTTERANCES), name="two")
    found = asked(both, trained_on(both, "one", "two"))
    assert list(found) == list(asked(places, trained_on(places, "chat")))


def test_no_text_is_left_behind(places: Places) -> None:
    asked(places, trained_on(places, "chat"))
    assert [path for path in places.cache.rglob("*") if path.is_file()] == []


def test_a_log_that_is_gone_or_has_changed_is_told_with_what_can_be_done(tmp_path: Path) -> None:
    places = logs_of(tmp_path, rows_of(0, 150), rows_of(150, 320))
    stored = trained_on(places, "chat")
    manifest = StoredLog.open(places.logs, "chat").manifest
    (places.logs / "chat" / manifest.parts[0].file).unlink()
    replace(manifest, parts=manifest.parts[1:]).write(places.logs / "chat")
    with refusing(NotFound, manifest.parts[0].sha256[:12]) as changed:
        asked(places, stored)
    (places.logs / "chat" / MANIFEST).unlink()
    with refusing(NotFound, "chat") as gone:
        asked(places, stored)
    assert all("--items" in error.value.remedy for error in (changed, gone))


@pytest.mark.parametrize(
    "details",
    [
        {},
        {"logs": {"chat": []}, "shared": {"least": 1}, "examples": {}},
        {"logs": {}, "shared": {}, "examples": {}},
        {"logs": {"chat": []}, "shared": {}, "examples": {"validation_share": 7}},
    ],
)
def test_a_manifest_that_does_not_say_what_was_learnt_from_is_corrupt(places: Places, details: dict[str, Any]) -> None:
    with refusing(Corrupt) as error:
        asked(places, details)
    assert "--items" in error.value.remedy
