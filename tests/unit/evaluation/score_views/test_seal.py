"""A short document is sealed in one piece, a long one in many: both are the same seal."""

from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from refaug.evaluation.score_files import score_document
from refaug.evaluation.score_files.score_document import seal_of

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
