"""Frozen sets: what goes in comes out, what is altered is found, what is derived is what plain Python derives."""

from __future__ import annotations

import hashlib
import json
import os
import random
import signal
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import orjson
import pytest
import zstandard
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from refusals import refusing

from refaug.core.errors import BadInput, Conflict, Corrupt, NotFound, Usage
from refaug.core.progress import Silent
from refaug.core.records import Item, Origin, Reference
from refaug.logs.reading.sources import MAX_LINE_BYTES
from refaug.metrics.signature import Signature
from refaug.metrics.specification import build
from refaug.scoring.evaluate import evaluate
from refaug.scoring.items import BadItem, parse_item
from refaug.scoring.provenance import Provenance
from refaug.scoring.reference_sets.derivation import Derivation
from refaug.scoring.reference_sets.reference_set import NO_LINE, Purpose, ReferenceSet, SetDescription, line_of
from refaug.scoring.reference_sets.set_scores import BIN_EDGES, evidence, join, score
from refaug.scoring.reference_sets.set_store import FreezeResult, ReferenceSets
from refaug.scoring.settings import ScoreSettings

ROOT = Path(__file__).parents[4]
WORDS = ["we", "you", "they", "go", "eat", "drink", "tea", "milk", "home", "today", "never", "often", "the", "not"]
TEST = SetDescription(
    purpose=Purpose.TEST,
    provenance={"k": "4", "gold": "one", "parrot": "rated", "weights": "rated", "index": "chat@1#abc"},
    details={"oov": "skip"},
    how={"freeze": {"references": "found"}},
)
FEW = ScoreSettings(draws=20)


def words(rng: random.Random, most: int = 7) -> str:
    return " ".join(rng.choices(WORDS, k=rng.randint(1, most)))


def item_of(number: int) -> Item:
    """A gold, one that people weighed, the parrot and four that were found, all rated; and replies of two systems."""
    rng = random.Random(f"item {number}")
    utterance = words(rng)
    rated = [rng.uniform(-1, 1) for _ in range(6)]
    references = [
        Reference(text=words(rng), weight=1.0, rating=rated[5]),
        Reference(text=words(rng), source=Origin.SUPPLIED, weight=rng.uniform(-1, 1)),
        Reference(text=utterance, source=Origin.PARROT, weight=rated[4], rating=rated[4]),
    ]
    for place in range(4):
        more = {"rank": place + 1, "log": "chat", "pair": f"chat/d{number}#{place}"}
        utterance_there = words(rng)
        numbers = {"weight": rated[place], "rating": rated[place], "similarity": rng.random()}
        references.append(
            Reference(text=words(rng), source=Origin.RETRIEVED, more=more, utterance=utterance_there, **numbers)
        )
    return Item(
        id=f"item-{number}",
        turns=(*(words(rng) for _ in range(number % 3)), utterance),
        references=tuple(references),
        dialogue=f"d{number}" if number % 2 else None,
        time=datetime(2027, 6, 1, 9, number % 60, tzinfo=UTC) if number % 3 else None,
        exclude=("d1", "d2") if number % 4 == 0 else (),
        replies={"a": words(rng), "b": words(rng)},
        ratings={"a": (1.0, None)},
    )


ITEMS = [item_of(number) for number in range(30)]


@pytest.fixture
def sets(tmp_path: Path) -> ReferenceSets:
    return ReferenceSets(tmp_path / "reference-sets")


def frozen(sets: ReferenceSets, items: list[Any] | None = None, making: SetDescription = TEST) -> ReferenceSet:
    return sets.freeze(ITEMS if items is None else items, making).set


def bare(item: Item) -> Item:
    return replace(item, replies={}, ratings={})


def lines_of(stored: ReferenceSet) -> list[bytes]:
    """The lines of a file, by the library's own reader of several frames."""
    with stored.path.open("rb") as file:
        reader = zstandard.ZstdDecompressor().stream_reader(file, read_across_frames=True)
        return reader.readall().splitlines()


def files(sets: ReferenceSets) -> list[str]:
    return sorted(path.name for path in sets.folder.iterdir() if path.name != ".lock")


# ── freezing and reading ──────────────────────────────────────────────────────────────────────────────────────────


def test_a_set_has_the_items_in_their_order_without_replies(sets: ReferenceSets) -> None:
    stored = frozen(sets)
    assert list(sets.open(stored.id).items()) == [bare(item) for item in ITEMS]
    assert files(sets) == [f"{stored.id}.jsonl.zst"]


def test_file_is_json_lines_whose_hashes_equal_the_manifests(sets: ReferenceSets) -> None:
    stored = frozen(sets)
    first, *rest = lines_of(stored)
    manifest = json.loads(first)
    assert manifest["content"] == hashlib.sha256(b"".join(line + b"\n" for line in rest)).hexdigest()
    said = {name: value for name, value in manifest.items() if name not in ("id", "created", "refaug")}
    packed = json.dumps(said, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()
    assert manifest["id"] == hashlib.sha256(packed).hexdigest()[:16] == stored.id
    assert (manifest["kind"], manifest["format_version"], manifest["purpose"]) == ("reference-set", 1, "test")
    assert (manifest["items"], manifest["references"], manifest["parent"]) == (30, 30 * 7, None)
    assert (manifest["provenance"], manifest["details"]) == (TEST.provenance, TEST.details)
    whole = stored.path.read_bytes()
    assert whole[-32:] == hashlib.sha256(whole[:-40]).digest()
    assert json.loads(rest[0])["references"][3]["pair"] == "chat/d0#0"
    assert not any(b"replies" in line or b"ratings" in line for line in rest)


def test_the_same_content_has_the_same_id_and_is_there_already(sets: ReferenceSets, tmp_path: Path) -> None:
    first = sets.freeze(ITEMS, TEST)
    before = first.set.path.read_bytes()
    other = [replace(item, replies={}, ratings={}) for item in ITEMS]
    second = sets.freeze(iter(other), TEST)
    assert (first.is_new, second.is_new) == (True, False)
    assert second.set == first.set
    assert second.set.path.read_bytes() == before
    assert ReferenceSets(tmp_path / "elsewhere").freeze(ITEMS, TEST).set.id == first.set.id
    again = sets.freeze(list(first.set.items()), TEST)
    assert (again.is_new, again.set.id) == (False, first.set.id)
    assert len(files(sets)) == 1


def test_whatever_a_set_says_is_in_its_id(sets: ReferenceSets) -> None:
    gold = ITEMS[3].references[0]
    other = replace(ITEMS[3], references=(replace(gold, weight=0.5),))
    ids = [
        frozen(sets).id,
        frozen(sets, ITEMS[::-1]).id,
        frozen(sets, ITEMS[:-1]).id,
        frozen(sets, [*ITEMS[:3], other, *ITEMS[4:]]).id,
        frozen(sets, making=replace(TEST, purpose=Purpose.TRAIN)).id,
        frozen(sets, making=replace(TEST, provenance={})).id,
        frozen(sets, making=replace(TEST, details={})).id,
        frozen(sets, making=replace(TEST, parent="0" * 16)).id,
    ]
    assert len(set(ids)) == len(ids)
    assert sets.ids() == sorted(ids)


text = st.text(max_size=20)
number = st.floats(-1, 1)
more = st.dictionaries(st.sampled_from(["rank", "log", "pair"]), st.one_of(text, st.integers(0, 9)))
references = st.one_of(
    st.builds(Reference, text=text, weight=st.one_of(st.none(), number)),
    st.builds(Reference, text=text, source=st.just(Origin.SUPPLIED), weight=number),
    st.builds(
        Reference,
        text=text,
        source=st.sampled_from([Origin.PARROT, Origin.RETRIEVED]),
        weight=number,
        rating=st.one_of(st.none(), number),
        similarity=st.one_of(st.none(), st.floats(-1e6, 1e6)),
        more=more,
    ),
)
any_items = st.builds(
    Item,
    id=text.filter(lambda name: bool(name.strip())),
    turns=st.lists(text, max_size=3).map(tuple),
    references=st.lists(references, max_size=4).map(lambda some: (Reference(text="yes"), *some)),
    dialogue=st.one_of(st.none(), text),
    time=st.one_of(st.none(), st.datetimes(timezones=st.just(UTC))),
    exclude=st.lists(text, max_size=2).map(tuple),
)


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(any_items, min_size=1, max_size=5, unique_by=lambda item: item.id))
def test_any_items_come_back_as_they_were(sets: ReferenceSets, items: list[Item]) -> None:
    stored = frozen(sets, items)
    assert list(stored.items()) == items
    stored.verify()
    for item, line in zip(items, lines_of(stored)[1:], strict=True):
        assert parse_item(orjson.loads(line), where="", line=1, fallback_id="") == item
        assert line_of(item) == line


def test_an_item_that_cannot_be_frozen_is_told_and_the_others_are_frozen(sets: ReferenceSets) -> None:
    def with_references(name: str, *references: Reference) -> Item:
        return Item(id=name, turns=("hi",), references=references)

    nested: Any = 1
    for _ in range(300):
        nested = [nested]
    elsewhere = BadItem(file="x.jsonl", line=7, item=None, field="", message="not JSON")
    found = sets.freeze(
        [
            ITEMS[0],
            elsewhere,
            with_references("none"),
            with_references("blank", Reference(text=" ")),
            with_references("found", Reference(text="x"), Reference(text="y", source=Origin.RETRIEVED)),
            with_references("far", Reference(text="x", weight=1.5)),
            with_references("half", Reference(text="\ud800")),
            with_references("deep", Reference(text="x", more={"deep": nested})),
            with_references("long", Reference(text="x" * MAX_LINE_BYTES)),
            ITEMS[0],
            ITEMS[1],
        ],
        TEST,
        called="the items",
    )
    assert list(found.set.items()) == [bare(ITEMS[0]), bare(ITEMS[1])]
    told = [(bad.item, bad.field) for bad in found.bad_items]
    assert told == [
        (None, ""), ("none", "references"), ("blank", "references"), ("found", "references[1]"),
        ("far", "references[0].weight"), ("half", ""), ("deep", ""), ("long", ""), ("item-0", "id"),
    ]  # fmt: skip
    assert found.bad_items[0] == elsewhere
    assert {(bad.file, bad.line) for bad in found.bad_items[1:]} == {("the items", NO_LINE)}
    assert "retrieved" in found.bad_items[3].message


def test_nothing_is_frozen_of_nothing_or_where_the_caller_refuses(sets: ReferenceSets) -> None:
    bad = BadItem(file="x.jsonl", line=7, item=None, field="", message="not JSON")
    with refusing(BadInput):
        sets.freeze([Item(id="x")], TEST)
    with refusing(BadInput):
        sets.freeze([], TEST)
    with refusing(BadInput, "x.jsonl"):
        sets.freeze([bad], TEST)
    told = []

    def refuse(some: Any) -> None:
        told.extend(some)
        raise BadInput("strict")

    with refusing(BadInput, "strict"):
        sets.freeze([ITEMS[0], bad], TEST, check=refuse)
    assert told == [bad]
    assert files(sets) == []


# ── kills, and several at once ────────────────────────────────────────────────────────────────────────────────────

_FREEZER = """
import os, signal, sys
from pathlib import Path
sys.path[:0] = [sys.argv[1], sys.argv[1] + "/tests"]
from refaug.core.records import Item, Reference
from refaug.scoring.reference_sets.reference_set import SetDescription, Purpose
from refaug.scoring.reference_sets.set_store import ReferenceSets

def items():
    for number in range(4000):
        if number == 3000:
            os.kill(os.getpid(), signal.SIGKILL)
        text = os.urandom(200).hex()
        yield Item(id=str(number), references=(Reference(text=text),))

ReferenceSets(Path(sys.argv[2])).freeze(items(), SetDescription(purpose=Purpose.TEST))
"""


def test_kill_while_writing_leaves_no_set_and_the_next_write_cleans_up(
    sets: ReferenceSets,
) -> None:
    done = subprocess.run([sys.executable, "-c", _FREEZER, str(ROOT), str(sets.folder)], check=False, cwd=ROOT)
    assert done.returncode == -signal.SIGKILL
    left = [path for path in sets.folder.iterdir() if path.name != ".lock"]
    assert [path.suffix for path in left] == [".aside"]
    assert left[0].stat().st_size > 100_000
    assert sets.ids() == []
    stored = frozen(sets)
    assert files(sets) == [f"{stored.id}.jsonl.zst"]


def test_two_may_freeze_at_once(sets: ReferenceSets) -> None:
    inner = []

    def items() -> Any:
        yield ITEMS[0]
        inner.append(frozen(sets, ITEMS[5:9]))
        yield ITEMS[1]

    outer = sets.freeze(items(), TEST).set
    assert list(outer.items()) == [bare(ITEMS[0]), bare(ITEMS[1])]
    assert list(inner[0].items()) == [bare(item) for item in ITEMS[5:9]]
    assert files(sets) == sorted(f"{one.id}.jsonl.zst" for one in (outer, inner[0]))


def test_an_error_among_the_items_leaves_nothing(sets: ReferenceSets) -> None:
    def items() -> Any:
        yield ITEMS[0]
        raise Corrupt("the index is damaged")

    with refusing(Corrupt):
        sets.freeze(items(), TEST)
    assert files(sets) == []


# ── what is wrong with a file ─────────────────────────────────────────────────────────────────────────────────────


def altered(data: bytes, seed: int) -> bytes:
    """A file with some bytes flipped, removed or put in, somewhere; by turns also at its ends."""
    rng = random.Random(seed)
    size = rng.choice([1, 1, 3, 50])
    at = [rng.randrange(len(data)), rng.randrange(40), len(data) - 1 - rng.randrange(45)][seed % 3]
    region = bytes(byte ^ (1 << rng.randrange(8)) for byte in data[at : at + size])
    return (
        data[:at]
        + [region, b"", bytes(rng.choices(range(256), k=size)) + data[at : at + size]][seed // 3 % 3]
        + (data[at + size :])
    )


@pytest.mark.parametrize("seed", range(36))
def test_whatever_is_altered_in_a_file_is_found(sets: ReferenceSets, seed: int) -> None:
    stored = frozen(sets)
    whole = stored.path.read_bytes()
    sets.open(stored.id).verify()
    stored.path.write_bytes(altered(whole, seed))
    assert stored.path.read_bytes() != whole
    with refusing(Corrupt, stored.path):
        sets.open(stored.id).verify()


def test_every_single_bit_of_the_first_bytes_and_of_the_seal_counts(sets: ReferenceSets) -> None:
    stored = frozen(sets, ITEMS[:2])
    whole = stored.path.read_bytes()
    for at in [*range(20), *range(len(whole) - 60, len(whole))]:
        for bit in range(8):
            data = bytearray(whole)
            data[at] ^= 1 << bit
            stored.path.write_bytes(data)
            with pytest.raises(Corrupt):
                sets.open(stored.id).verify()


def rewritten(stored: ReferenceSet, lines: list[bytes], *, seal: bool = True) -> None:
    """The file anew with other lines, and a seal that fits them."""
    data = zstandard.ZstdCompressor().compress(b"".join(line + b"\n" for line in lines))
    head = b"\x50\x2a\x4d\x18" + (32).to_bytes(4, "little")
    stored.path.write_bytes(data + (head + hashlib.sha256(data).digest() if seal else b""))


def test_what_is_wrong_is_said_precisely(sets: ReferenceSets) -> None:
    stored = frozen(sets, [*ITEMS, Item(id="last", references=(Reference(text="bye"),))])
    whole, lines = stored.path.read_bytes(), lines_of(stored)

    def wrong() -> str:
        with pytest.raises(Corrupt) as error:
            sets.open(stored.id).verify()
        return error.value.message.removeprefix(f"{stored.path}: ")

    stored.path.write_bytes(whole[: len(whole) // 2])
    assert "breaks off" in wrong()
    assert "of 31 items" in wrong()
    stored.path.write_bytes(whole[:-10])
    assert "breaks off" in wrong() or "cut off" in wrong()
    stored.path.write_bytes(whole[:-40])
    assert "its end is cut off" in wrong()
    stored.path.write_bytes(b"")
    assert "its first line is not a manifest" in wrong()
    rewritten(stored, lines[:-1])
    assert wrong() == "it has 30 items, its manifest says 31"
    rewritten(stored, [lines[0], *lines[2:], lines[1]])
    assert "its items were altered" in wrong()
    rewritten(stored, [*lines[:-1], lines[-1].replace(b"bye", b"buy")])
    assert "its items were altered" in wrong()
    rewritten(stored, [lines[0].replace(b'"items":31', b'"items":30'), *lines[1:]])
    assert "its manifest was altered" in wrong()
    rewritten(stored, [lines[0].replace(b'"format_version":1', b'"format_version":2'), *lines[1:]])
    assert "format 2" in wrong()
    rewritten(stored, [lines[0].replace(b"reference-set", b"rater"), *lines[1:]])
    assert "rater" in wrong()
    rewritten(stored, lines, seal=False)
    assert "its end is cut off or altered" in wrong()
    created = json.loads(lines[0])["created"].encode()
    stored.path.write_bytes(whole)
    data = zstandard.ZstdCompressor().compress(
        b"".join(line + b"\n" for line in [lines[0].replace(created, b"2001-01-01T00:00:00+00:00"), *lines[1:]])
    )
    stored.path.write_bytes(data + whole[-40:])
    assert "the seal does not fit" in wrong()
    rewritten(stored, lines)
    sets.open(stored.id).verify()  # compressed otherwise, it says the same


def test_altered_items_are_refused_wherever_they_are_read(sets: ReferenceSets) -> None:
    stored = frozen(sets)
    lines = lines_of(stored)
    rewritten(stored, [*lines[:5], lines[5].replace(b"chat/d4#0", b"chat/d4#9"), *lines[6:]])
    assert sets.open(stored.id).id == stored.id
    with refusing(Corrupt):
        join(stored, ITEMS)
    with refusing(Corrupt):
        sets.derive(stored.id, Derivation(weights="one"))
    with refusing(Corrupt):
        evidence(stored)
    assert files(sets) == [stored.path.name]


@pytest.mark.parametrize(
    "wrong",
    [
        {"items": "30"},
        {"references": None},
        {"created": 1},
        {"details": []},
        {"parent": "../x"},
        {"provenance": {"a|b": "c"}},
        {"provenance": {"k": 4}},
        {"purpose": "exam"},
        {"further": 1},
        {"how": None},
    ],
    ids=str,
)
def test_a_manifest_from_elsewhere_with_values_that_cannot_be_is_corrupt(
    sets: ReferenceSets, wrong: dict[str, Any]
) -> None:
    first, *rest = lines_of(frozen(sets))
    values = {**json.loads(first), **wrong}
    said = {name: value for name, value in values.items() if name not in ("id", "created", "refaug")}
    values["id"] = hashlib.sha256(orjson.dumps(said, option=orjson.OPT_SORT_KEYS)).hexdigest()[:16]
    path = sets.folder / f"{values['id']}.jsonl.zst"
    path.write_bytes(zstandard.ZstdCompressor().compress(b"\n".join([orjson.dumps(values), *rest])))
    with refusing(Corrupt):
        sets.open(values["id"])


def test_a_file_under_another_name_is_refused(sets: ReferenceSets) -> None:
    stored = frozen(sets)
    stored.path.rename(stored.path.with_name(f"{'0' * 16}.jsonl.zst"))
    with refusing(Corrupt, stored.id):
        sets.open("0" * 16)


# ── names, withdrawals ────────────────────────────────────────────────────────────────────────────────────────────


def test_a_beginning_is_enough_where_it_names_one_set(sets: ReferenceSets) -> None:
    stored = frozen(sets)
    assert sets.open(stored.id[:6]) == sets.open(stored.id) == stored
    twin = stored.id[:7] + ("0" if stored.id[7] != "0" else "1") + stored.id[8:]
    (sets.folder / f"{twin}.jsonl.zst").write_bytes(b"")
    with refusing(Usage):
        sets.open(stored.id[:6])
    assert sets.open(stored.id[:8]) == stored
    with pytest.raises(NotFound):
        sets.open("f" * 16 if not stored.id.startswith("f") else "e" * 16)


@pytest.mark.parametrize("text", ["", "abcde", "a" * 17, "../../etc/passwd", "ABCDEF12", "abcdef\n", "abcdeg", "*" * 6])
def test_what_is_no_id_is_refused(sets: ReferenceSets, text: str) -> None:
    frozen(sets)
    for use in (sets.open, sets.resolve, lambda name: sets.withdraw(name, "why")):
        with refusing(Usage):
            use(text)


def test_withdrawn_set_is_refused_with_the_reason_and_a_replacement(sets: ReferenceSets) -> None:
    stored, other = frozen(sets), frozen(sets, ITEMS[:5])
    whole = stored.path.read_bytes()
    with refusing(Usage):
        sets.withdraw(stored.id, " ")
    with refusing(Usage):
        sets.withdraw(stored.id, "why", stored.id)
    with pytest.raises(NotFound):
        sets.withdraw(stored.id, "why", "123456")
    found = sets.withdraw(stored.id[:8], "a speaker was erased", other.id[:8])
    assert (found.reason, found.instead) == ("a speaker was erased", other.id)
    assert sets.withdraw(stored.id, "a speaker was erased", other.id) == found
    with refusing(Conflict, "a speaker was erased"):
        sets.withdraw(stored.id, "another reason")
    for use in (
        lambda: sets.open(stored.id),
        lambda: sets.derive(stored.id, Derivation(k=1)),
        lambda: sets.freeze(ITEMS, TEST),
        lambda: sets.withdraw(other.id, "also", stored.id),
    ):
        with refusing(Conflict, "a speaker was erased") as refused:
            use()
        assert other.id in refused.value.remedy
    assert sets.open(stored.id, even_withdrawn=True) == stored
    assert sets.ids() == sorted([stored.id, other.id])
    assert stored.path.read_bytes() == whole
    stored.path.unlink()
    with refusing(Conflict):
        sets.open(stored.id)
    with pytest.raises(NotFound):
        sets.open(stored.id, even_withdrawn=True)


# ── deriving ──────────────────────────────────────────────────────────────────────────────────────────────────────


def plainly(item: Item, change: dict[str, Any]) -> list[tuple[str, str, float | None]]:
    """Text, source and weight of what remains, one by one."""
    rows, found = [], 0
    for one in item.references:
        weight = one.weight
        if one.source == "retrieved":
            found += 1
            if found > change.get("k", 99):
                continue
            weight = {"one": 1.0, "rated": one.rating}.get(change.get("weights", ""), weight)
        if one.source == "gold":
            weight = {"one": 1.0, "rated": one.rating}.get(change.get("gold", ""), weight)
        if one.source == "parrot" and "parrot" in change:
            if change["parrot"] == "off":
                continue
            weight = one.rating if change["parrot"] == "rated" else change["parrot"]
        rows.append((one.text, one.source.value, weight))
    return rows


CHANGES: list[dict[str, Any]] = [
    {"weights": "one"},
    {"parrot": "off"},
    {"parrot": 0.25},
    {"parrot": -1},
    {"gold": "rated"},
    {"k": 1},
    {"k": 3, "weights": "one", "parrot": "off", "gold": "rated"},
    {"k": 2, "gold": "one", "weights": "rated", "parrot": 0.0},
]


@pytest.mark.parametrize("change", CHANGES, ids=str)
def test_a_derived_set_is_what_plain_python_makes_of_its_parent(sets: ReferenceSets, change: dict[str, Any]) -> None:
    parent = frozen(sets)
    derived = sets.derive(parent.id[:9], Derivation(**change)).set
    found = [[(one.text, one.source.value, one.weight) for one in item.references] for item in derived.items()]
    assert found == [plainly(item, change) for item in ITEMS]
    for item, before in zip(derived.items(), ITEMS, strict=True):
        assert replace(item, references=()) == replace(before, references=(), replies={}, ratings={})
        kept = [replace(one, weight=None) for one in before.references]
        assert all(replace(one, weight=None) in kept for one in item.references)
    said = {name: f"{value:g}" if isinstance(value, float | int) else value for name, value in change.items()}
    manifest = derived.manifest
    assert (manifest.parent, manifest.how, manifest.purpose) == (parent.id, {"derive": said}, Purpose.TEST)
    assert manifest.provenance == {**TEST.provenance, **said}
    assert manifest.references_provenance.settings == {**TEST.provenance, **said}
    assert derived.id != parent.id


def test_ratings_stay_so_that_weights_can_become_them_again(sets: ReferenceSets) -> None:
    parent = frozen(sets)
    ones = sets.derive(parent.id, Derivation(weights="one", parrot=0.5, gold="rated")).set
    back = sets.derive(ones.id, Derivation(weights="rated", parrot="rated", gold="one")).set
    assert list(back.items()) == [bare(item) for item in ITEMS]
    assert back.manifest.parent == ones.id
    assert len({parent.id, ones.id, back.id}) == 3


def test_a_rated_parrot_cannot_come_back_where_there_is_none(sets: ReferenceSets) -> None:
    without = sets.derive(frozen(sets).id, Derivation(parrot="off")).set
    with refusing(Usage, without.id):
        sets.derive(without.id, Derivation(parrot="rated", k=1))


def test_a_parrot_of_a_fixed_weight_comes_in_where_there_was_none(sets: ReferenceSets) -> None:
    parent = frozen(sets)
    without = sets.derive(parent.id, Derivation(parrot="off")).set
    added = list(sets.derive(without.id, Derivation(parrot=0.5)).set.items())
    assert [[one.text for one in item.references] for item in added] == [
        [one.text for one in item.references] for item in ITEMS
    ]
    assert {one.weight for item in added for one in item.references if one.source is Origin.PARROT} == {0.5}
    silent = Item(id="x", references=(Reference(text="yes"),))
    mixed = frozen(sets, [bare(ITEMS[0]), silent])
    assert list(sets.derive(mixed.id, Derivation(parrot=0.5)).set.items())[1] == silent


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"gold": "rated"}, "references[0]"),
        ({"weights": "rated"}, "references[2]"),
        ({"parrot": "rated"}, "references[1]"),
        ({"gold": "one"}, "gold one"),
        ({"weights": "one"}, "would change"),
        ({"k": 4}, "k=4 is not fewer than the 4"),
        ({"k": 9, "parrot": "off"}, "k=9 is not fewer than the 4"),
    ],
)
def test_what_was_never_stored_cannot_be_derived(sets: ReferenceSets, change: dict[str, Any], told: str) -> None:
    found = (
        Reference(text="yes"),
        Reference(text="hi", source=Origin.PARROT, weight=0.5),
        Reference(text="well", source=Origin.RETRIEVED, weight=1.0),
    )
    parent = frozen(sets, [Item(id="x", turns=("hi",), references=found)])
    with refusing(Usage, told):
        sets.derive(parent.id, Derivation(**change))
    assert files(sets) == [parent.path.name]


@pytest.mark.parametrize(
    "change",
    [{}, {"k": 0}, {"weights": "off"}, {"gold": "0.5"}, {"parrot": "one"}, {"parrot": 2}, {"parrot": float("nan")}],
)
def test_changes_without_a_meaning_are_refused(change: dict[str, Any]) -> None:
    with pytest.raises(Usage):
        Derivation(**change)


# ── scores ────────────────────────────────────────────────────────────────────────────────────────────────────────

METRICS = ["upsilon-bleu", "upsilon-bleu:variant=tsuta20", "bleu", "multi-bleu", "cider", "upsilon-chrf"]


def scored(stored: ReferenceSet, replies: Sequence[Item | BadItem], names: Sequence[str] = METRICS) -> dict[str, Any]:
    joined = join(stored, replies)
    return score(stored, joined, [build(name) for name in names], FEW, Silent()).as_json()


def test_scores_name_the_bots_that_replied(sets: ReferenceSets) -> None:
    system = next(iter(ITEMS[0].replies))
    replies = [replace(ITEMS[0], reply_provenance={system: "kind:retrieval|k:1"})]
    assert scored(frozen(sets), replies, ["bleu"])["reply_provenance"] == {system: "kind:retrieval|k:1"}


def test_scores_are_those_of_the_items_themselves_bit_by_bit(sets: ReferenceSets) -> None:
    stored = frozen(sets)
    found = scored(stored, list(ITEMS))
    direct = evaluate(
        ITEMS,
        [build(name) for name in METRICS],
        FEW,
        provenance=Provenance(settings=TEST.provenance, details=TEST.details),
    )
    assert found == direct.as_json()
    signatures = [one["signature"] for one in found["scores"]]
    assert ["|index:" in one for one in signatures] == [name.startswith("upsilon") for name in METRICS]
    assert Signature.parse(found["scores"][0]["signature_full"]).details["oov"] == "skip"


def test_the_order_of_the_replies_and_their_references_mean_nothing(sets: ReferenceSets) -> None:
    stored = frozen(sets)
    first = scored(stored, list(ITEMS))
    for seed in range(3):
        shuffled = random.Random(seed).sample(ITEMS, len(ITEMS))
        others = [replace(item, ratings={}, id=item.id, references=(Reference(text="other"),)) for item in shuffled]
        assert scored(stored, others) == first


def test_items_without_a_reply_are_missing_and_unknown_ids_are_told(sets: ReferenceSets) -> None:
    stored = frozen(sets)
    some: list[Item | BadItem] = [ITEMS[9], replace(ITEMS[2], replies={"b": "tea"}), ITEMS[9]]
    some.append(Item(id="stranger", replies={"a": "tea"}))
    found = scored(stored, some, ["upsilon-bleu"])
    systems = found["scores"][0]["systems"]
    assert list(systems) == ["b", "a"]  # in the order of the set
    assert {name: (one["scored"], one["unscored_by_reason"]) for name, one in systems.items()} == {
        "a": (1, {"no_reply": 29}),
        "b": (2, {"no_reply": 28}),
    }
    assert [one["id"] for one in systems["a"]["replies"]] == [item.id for item in ITEMS]
    assert [(one["id"], one["field"]) for one in found["problems"]] == [("item-9", "id"), ("stranger", "id")]
    whole = scored(stored, list(ITEMS), ["upsilon-bleu"])
    assert found["data"] == whole["data"]
    assert systems["a"]["replies"][9] == whole["scores"][0]["systems"]["a"]["replies"][9]
    with refusing(BadInput, stored.id):
        join(stored, [some[-1]])


def test_a_derived_set_gives_other_scores_under_another_signature(sets: ReferenceSets) -> None:
    parent = frozen(sets)
    derived = sets.derive(parent.id, Derivation(weights="one", parrot="off")).set
    first, second = (scored(one, list(ITEMS), ["upsilon-bleu"])["scores"][0] for one in (parent, derived))
    assert first["signature"] != second["signature"]
    assert "|parrot:off|weights:one|" in second["signature"]
    changed = [Derivation(weights="one", parrot="off").of(item) for item in ITEMS]
    direct = evaluate(changed, [build("upsilon-bleu")], FEW).as_json()["scores"][0]
    assert second["systems"] == direct["systems"]


def test_neither_freezing_nor_scoring_needs_torch_or_faiss(sets: ReferenceSets) -> None:
    stored = frozen(sets)
    program = (
        "import sys; from pathlib import Path\n"
        "from refaug.scoring.reference_sets.derivation import *\n"
        "from refaug.scoring.reference_sets.set_scores import *\n"
        "from refaug.scoring.reference_sets.set_store import *\n"
        "from refaug.metrics.specification import build\n"
        "from refaug.core.records import *\n"
        "sets = ReferenceSets(Path(sys.argv[1])); stored = sets.open(sys.argv[2])\n"
        "replies = [Item(id=item.id, replies={'a': 'we drink tea'}) for item in stored.items()]\n"
        "found = score(stored, join(stored, replies), [build('upsilon-bleu')])\n"
        "sets.derive(stored.id, Derivation(k=1))\n"
        "print(found.scores[0].systems['a'].corpus, *{'torch', 'faiss', 'rater', 'indexer'} & set(sys.modules))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, str(sets.folder), stored.id],
        check=True, capture_output=True, text=True, cwd=ROOT, env={**os.environ, "PYTHONPATH": str(ROOT)},
    )  # fmt: skip
    replies: list[Item | BadItem] = [replace(item, replies={"a": "we drink tea"}) for item in ITEMS]
    assert done.stdout.split() == [
        repr(scored(stored, replies, ["upsilon-bleu"])["scores"][0]["systems"]["a"]["corpus"])
    ]


# ── evidence ──────────────────────────────────────────────────────────────────────────────────────────────────────


def test_weights_are_counted_in_ten_bins_each_with_its_lower_edge(sets: ReferenceSets) -> None:
    weights = [-1, -0.81, -0.8, -0.6, -0.4, -0.2, -1e-9, 0, 0.2, 0.4, 0.6, 0.8, 0.79, 1]
    found = tuple(Reference(text=f"t{w}", source=Origin.RETRIEVED, weight=float(w)) for w in weights)
    stored = frozen(
        sets,
        [
            Item(id="x", references=(Reference(text="gold", weight=0.3), *found)),
            Item(id="y", references=(Reference(text="gold"), *found[-2:])),
        ],
    )
    assert BIN_EDGES == (-0.8, -0.6, -0.4, -0.2, 0.0, 0.2, 0.4, 0.6, 0.8)
    facts = evidence(stored)
    assert facts.weights == (2, 1, 1, 1, 2, 1, 1, 1, 2 + 1, 2 + 1)
    assert (facts.thin, facts.sources) == (1, {"gold": 2, "retrieved": 16})


def test_what_freezing_answers_says_whether_it_is_new(sets: ReferenceSets) -> None:
    found = sets.freeze(ITEMS, TEST)
    assert found == FreezeResult(set=sets.open(found.set.id), is_new=True, bad_items=())
