"""Weights by people in a derived set: of the references that they rated, and of no other."""

import orjson
import pytest
from refusals import refusing

from refaug.core.errors import BadInput
from refaug.core.records import Item, Origin, Reference
from refaug.scoring.reference_sets.derivation import Derivation, PeopleWeights
from refaug.scoring.reference_sets.reference_set import Purpose, SetDescription
from refaug.scoring.reference_sets.set_store import ReferenceSets

LINES = [
    {"item": "i1", "reference": "Yes.", "weight": 0.5, "ratings": 4},
    {"item": "i2", "reference": "Yes.", "weight": -1},
]


def items():
    return [
        Item(id=name, turns=("So?",), references=(Reference(text="Yes."), Reference(text="No.", weight=0.25)))
        for name in ("i1", "i2", "i3")
    ]


def written(tmp_path, *lines):
    path = tmp_path / "weights.jsonl"
    path.write_bytes(b"".join(orjson.dumps(line) + b"\n" for line in lines))
    return path


@pytest.fixture
def sets(tmp_path):
    return ReferenceSets(tmp_path / "sets")


def frozen(sets):
    return sets.freeze(iter(items()), SetDescription(purpose=Purpose.TEST, how={}), called="items").set


def test_a_derived_set_has_the_weights_of_people_and_says_so(sets, tmp_path):
    parent, people = frozen(sets), PeopleWeights.read(written(tmp_path, *LINES))
    derived = sets.derive(parent.id, Derivation(people=people)).set
    weights = [[reference.weight for reference in item.references] for item in derived.items()]
    assert weights == [[0.5, 0.25], [-1.0, 0.25], [None, 0.25]]
    sources = [[reference.source for reference in item.references] for item in derived.items()]
    assert sources == [[Origin.SUPPLIED, Origin.GOLD], [Origin.SUPPLIED, Origin.GOLD], [Origin.GOLD, Origin.GOLD]]
    assert derived.manifest.how == {"derive": {"people": people.fingerprint}}
    assert derived.manifest.provenance["people"] == people.fingerprint
    assert derived.manifest.parent == parent.id


def test_the_order_of_the_lines_changes_nothing(sets, tmp_path):
    parent = frozen(sets)
    first = sets.derive(parent.id, Derivation(people=PeopleWeights.read(written(tmp_path, *LINES)))).set
    second = sets.derive(parent.id, Derivation(people=PeopleWeights.read(written(tmp_path, *LINES[::-1])))).set
    assert first.id == second.id


def test_references_that_are_not_in_the_set_are_refused(sets, tmp_path):
    people = PeopleWeights.read(written(tmp_path, *LINES, {"item": "i1", "reference": "Maybe.", "weight": 1}))
    with refusing(BadInput, "Maybe"):
        sets.derive(frozen(sets).id, Derivation(people=people))


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ({"item": "i1", "reference": "Yes.", "weight": 2}, "line 1: weight: 2 is not a number from -1 to 1"),
        ({"item": "i1", "weight": 0}, "None"),
        ({"item": 3, "reference": "Yes.", "weight": 0}, "line 1: item: '3' is not a text"),
    ],
)
def test_a_wrong_line_is_named(tmp_path, line, message):
    with refusing(BadInput, message):
        PeopleWeights.read(written(tmp_path, line))


def test_a_reference_with_two_weights_and_an_empty_file_are_refused(tmp_path):
    with refusing(BadInput):
        PeopleWeights.read(written(tmp_path, LINES[0], LINES[0]))
    with refusing(BadInput):
        PeopleWeights.read(written(tmp_path))
