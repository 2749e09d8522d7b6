"""A document is sealed and written in one piece or in many, of lists or of passes: seal and bytes are the same."""

from __future__ import annotations

import math
from types import MappingProxyType
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from refaug.scoring.score_files import score_document
from refaug.scoring.score_files.score_document import indented_pieces, is_sealed, seal_of
from refaug.scoring.spooled_items.item_collection import PassingList

TEXTS = st.text(max_size=6)
NUMBERS = st.one_of(st.none(), st.booleans(), st.integers(-9, 9), st.sampled_from([0.0, 1.0, -2.0, 0.1, math.nan]))
CONTENTS = st.recursive(
    st.one_of(NUMBERS, TEXTS, st.sampled_from(["1.0,", "2.0]", ".0}"])),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(TEXTS, inner, max_size=3)),
    max_leaves=12,
)


LISTS = st.lists(CONTENTS, max_size=7)
OBJECTS = st.dictionaries(TEXTS, CONTENTS, max_size=7)


@given(OBJECTS, LISTS, LISTS | CONTENTS, LISTS | CONTENTS, OBJECTS | CONTENTS)
def test_a_document_has_one_seal_whether_it_is_read_whole_or_in_pieces(
    fields: dict[str, Any], replies: list[Any], items: Any, rows: Any, evidence: Any
) -> None:
    scores = [{"name": "m", "systems": {"b": {"mean": 1.0, "replies": replies}, "a": {"replies": items}, 1: rows}}]
    details = {"sums": [{"systems": {"b": rows}, "columns": ["c"]}, rows], "items": items}
    document = {**fields, "items": 1, "scores": scores, "details": details, "evidence": evidence}
    whole = seal_of(document)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(score_document, "_REPLIES_AT_ONCE", -1)
        assert seal_of(document) == whole
        patch.setattr(score_document, "_SEALED_AT_ONCE", 4)
        assert seal_of(document) == whole
        patch.setattr(score_document, "_ENTRIES_AT_ONCE", 2)
        assert seal_of(document) == whole


def passing(content: Any) -> Any:
    """Return a list as a passing list, and an object as a mapping that orjson does not know."""
    if isinstance(content, list):
        return PassingList(len(content), lambda: content)
    return MappingProxyType(content) if isinstance(content, dict) else content


@pytest.mark.parametrize("entries_at_once", [1, 2, 200])
@given(OBJECTS, LISTS, LISTS, LISTS | CONTENTS, OBJECTS)
def test_pieces_of_passes_are_the_bytes_and_the_seal_of_the_whole_document(
    entries_at_once: int, fields: dict[str, Any], replies: list[Any], items: list[Any], rows: Any, evidence: Any
) -> None:
    def document(of: Any) -> dict[str, Any]:
        return {
            **fields,
            "items": 1,
            "scores": [{"name": "m", "systems": {"b": {"mean": 1.0, "replies": of(replies)}, 1: {}}}, {"systems": {}}],
            "details": {"sums": [{"systems": {"b": of(rows)}, "columns": ["c"]}], "items": of(items)},
            "evidence": of(evidence),
        }

    whole = document(lambda content: content)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(score_document, "_ENTRIES_AT_ONCE", entries_at_once)
        written = orjson.dumps(whole, option=orjson.OPT_INDENT_2 | orjson.OPT_NON_STR_KEYS)
        assert b"".join(indented_pieces(whole)) == written
        assert b"".join(indented_pieces(document(passing))) == written
        assert seal_of(document(passing)) == seal_of(whole)
        patch.setattr(score_document, "_REPLIES_AT_ONCE", -1)
        assert seal_of(document(passing)) == seal_of(whole)


def test_no_seal_fits_a_number_that_no_document_has() -> None:
    assert is_sealed({"checksum": "0" * 64, "items": 1, "corpus": -(2**70)}) is False
