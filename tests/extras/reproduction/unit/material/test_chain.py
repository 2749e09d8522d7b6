"""What the proof keeps: found again only where it was made of exactly the same."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from proofs import tiny_chain, tiny_set


def test_references_of_another_dialogue_are_looked_for_anew(tmp_path: Path) -> None:
    """Where replies, references and ratings are the same, and only the context is another one."""
    chain, one = tiny_chain(tmp_path), tiny_set("first", 15)
    items = [replace(item, turns=("why do the old stones sing",)) for item in one.items]
    other = replace(one, items=tuple(items))
    index, rater = chain.main_index(), chain.rater()

    before, after = chain.pool(one, index, rater), chain.pool(other, index, rater)

    texts = [[[found.text for found in some] for some in pool.retrieved] for pool in (before, after)]
    assert all(mine != theirs for mine, theirs in zip(*texts, strict=True))
    assert [found and found.text for found in after.parrots] == ["why do the old stones sing"] * len(items)
