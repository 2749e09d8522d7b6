"""Replies and references as nlg-eval takes them, with mistakes named."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from refaug.core.errors import BadInput, NoSource
from refaug.library.nlgeval.overlap import OverlapItem


def require_text(name: str, text: object) -> str:
    """Return a text, or refuse what is none."""
    if not isinstance(text, str):
        raise BadInput(f"{name} is {_kind(text)}, not a text", remedy="a string; '' for an empty reply")
    return text


def require_texts(name: str, texts: object) -> list[str]:
    """Return a list of texts, or refuse what is none; a string is refused, as its letters are no references."""
    if isinstance(texts, str):
        raise BadInput(f"{name} is a string where a list of strings belongs", remedy=f"[{texts[:30]!r}]")
    if not isinstance(texts, Sequence) or not texts:
        raise BadInput(f"{name} is {_kind(texts)}, not a list of texts", remedy="at least one reference")
    return [require_text(f"{name}[{place}]", text) for place, text in enumerate(texts)]


def aligned_items(references: object, replies: object) -> list[OverlapItem]:
    """Return an item for each reply; `references` has a list for each first, second, … reference."""
    texts = require_texts("hyp_list", replies)
    if isinstance(references, str) or not isinstance(references, Sequence) or not references:
        raise BadInput(f"ref_list is {_kind(references)}, not a list of lists", remedy="a list for each reference")
    for place, column in enumerate(references):
        if isinstance(column, str) or not isinstance(column, Sequence):
            raise BadInput(f"ref_list[{place}] is {_kind(column)}, not a list", remedy="ref_list=[[first references]]")
        if len(column) != len(texts):
            transposed = (
                " (is it a list for each reply? then list(zip(*ref_list)))" if len(references) == len(texts) else ""
            )
            raise BadInput(
                f"ref_list[{place}] has {len(column):,} references and hyp_list {len(texts):,} replies",
                remedy=f"one list for each first, second, … reference, None where there is none{transposed}",
            )
    return [_aligned_item(place, text, [column[place] for column in references]) for place, text in enumerate(texts)]


def _aligned_item(place: int, reply: str, references: Sequence[object]) -> OverlapItem:
    texts = [
        require_text(f"ref_list[{column}][{place}]", text).strip()
        for column, text in enumerate(references)
        if text is not None
    ]
    if not texts:
        raise BadInput(
            f"reply {place} of hyp_list has no reference", remedy="at least one list must have a text for it"
        )
    return OverlapItem(reply.strip(), texts)


def read_lines(path: Path) -> list[str]:
    """Return the lines of a file of UTF-8."""
    try:
        content = path.read_bytes()
    except OSError as error:
        raise NoSource(f"{str(path)!r} cannot be read: {error.strerror}") from error
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise BadInput(f"{path}, line {line}: not UTF-8: {error.reason}") from error
    return text.replace("\r\n", "\n").removesuffix("\n").split("\n") if text else []


def _kind(thing: object) -> str:
    return "None" if thing is None else f"{type(thing).__name__} {str(thing)[:30]!r}"
