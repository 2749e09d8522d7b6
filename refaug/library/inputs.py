"""Inputs: lists, frames of pandas and polars, datasets, and items of `refaug_client` become test items.

Frames are recognised by their methods, so that none of these libraries is imported. A missing cell (None, NaN, NA) is a
missing prediction or a missing field, never a text.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from refaug.core.errors import BadInput, Usage
from refaug.core.records import Item
from refaug.library.results.parts import ItemProblem, shorten
from refaug.scoring.items import BadItem, parse_item
from refaug.tables.item_fields import ITEM_FIELDS, unused_fields

SYSTEM: Final = "model"  # the name of a single system without a name
_TO_ROWS: Final = ("to_dicts", "to_pylist")  # of frames of polars, and of tables of Arrow
_FIELDS: Final = frozenset({*ITEM_FIELDS, "evidence"})  # answers add the last
_SHOWN: Final = 3  # bad items in a message

Texts = Iterable[str | None]
Predictions = Texts | Mapping[str, Texts]


# ── Columns and rows ──────────────────────────────────────────────────────────────────────────────────────────────


def to_list(column: Any, what: str, example: str) -> list[Any]:
    """Return a list, a column of a frame, or any other iterable as a list; Usage for a text."""
    if isinstance(column, str | bytes):
        raise Usage(f"{what} is a text, {shorten(str(column))}, and not a list", remedy=f"{what}={example}")
    for method in ("to_list", "tolist"):  # of polars, of pandas and numpy
        if hasattr(column, method):
            return list(getattr(column, method)())
    if isinstance(column, Mapping) or not isinstance(column, Iterable):
        raise Usage(f"{what} is {_describe(column)}, and not a list", remedy=f"{what}={example}")
    return list(column)


def to_rows(table: Any, what: str = "items") -> list[Mapping[str, Any]]:
    """Return items, or the rows of a frame or a dataset, as plain objects without missing cells."""
    is_frame = any(hasattr(table, method) for method in _TO_ROWS)
    if isinstance(table, str | bytes) or not (is_frame or isinstance(table, Iterable)):
        raise Usage(f"{what} is {_describe(table)}, and not a list of items", remedy=f"{what}=[{{…}}, …]")
    if isinstance(table, Mapping):
        remedy = f"{what}=[…] around it" if "references" in table or "utterance" in table else f"{what}=[{{…}}, …]"
        raise Usage(f"{what} is one object with the keys {', '.join(map(str, table))}", remedy=remedy)
    return [_row(entry, place, what) for place, entry in enumerate(_entries(table))]


def _entries(table: Any) -> Iterable[Any]:
    if hasattr(table, "iterrows"):  # pandas
        return list(table.to_dict("records"))
    for method in _TO_ROWS:
        if hasattr(table, method):
            return list(getattr(table, method)())
    return table  # type: ignore[no-any-return]  # a list, a dataset, a generator


def _row(entry: Any, place: int, what: str) -> Mapping[str, Any]:
    if not isinstance(entry, Mapping) and hasattr(entry, "to_dict"):  # a result of ours or of refaug_client
        entry = entry.to_dict()
    if not isinstance(entry, Mapping):
        remedy = "predictions=[…] takes texts" if isinstance(entry, str) else f"{what}=[{{…}}, …]"
        raise BadInput(f"{what}[{place}] is {_describe(entry)}, and not an item", remedy=remedy)
    return {str(name): cell for name, raw in entry.items() if (cell := _plain(raw)) is not None}


def _plain(cell: Any) -> Any:
    """Return a cell as JSON has it; None where it is missing."""
    if cell is None or isinstance(cell, str):
        return cell
    if is_missing(cell):
        return None
    if isinstance(cell, Mapping):  # a dataset fills keys that other rows have with None
        return {str(name): plain for name, raw in cell.items() if (plain := _plain(raw)) is not None}
    if isinstance(cell, list | tuple):
        return [_plain(entry) for entry in cell]
    if hasattr(cell, "isoformat"):  # a time
        return cell.isoformat()
    if hasattr(cell, "to_dict"):
        return _plain(cell.to_dict())
    return _plain(cell.tolist()) if hasattr(cell, "tolist") else cell  # an array, or a number of numpy


def is_missing(cell: Any) -> bool:
    """Whether a cell is None, NaN, NaT or NA."""
    if cell is None or type(cell).__name__ in ("NAType", "NaTType"):
        return True
    return isinstance(cell, float) and cell != cell  # noqa: PLR0124  NaN alone differs from itself


def _describe(content: Any) -> str:
    if is_missing(content):
        return "missing"
    kinds = {str: "a text", bytes: "bytes", bool: "true or false", int: "a number", float: "a number", list: "a list"}
    kind = kinds.get(type(content), f"a {type(content).__name__}")
    return f"{kind}, {shorten(str(content))}" if isinstance(content, str | int | float) else kind


# ── Predictions and references ────────────────────────────────────────────────────────────────────────────────────


def predictions_by_system(predictions: Predictions, system: str) -> dict[str, list[str | None]]:
    """Return predictions of one system or of several, by name; None where one is missing."""
    if not isinstance(predictions, Mapping):
        return {system: _texts(predictions, "predictions")}
    return {str(name): _texts(texts, f"predictions[{name!r}]") for name, texts in predictions.items()}


def _texts(column: Any, what: str) -> list[str | None]:
    texts = list[str | None]()
    for place, text in enumerate(to_list(column, what, '["…", "…"]')):
        if is_missing(text):
            texts.append(None)
        elif isinstance(text, str):
            texts.append(text)
        else:
            remedy = "one system has one prediction for an item; several systems: predictions={name: […]}"
            raise BadInput(f"{what}[{place}] is {_describe(text)}, and not a text", remedy=remedy)
    return texts


def reference_lists(references: Any) -> list[list[Any]]:
    """Return a list of references for each item; a text in place of such a list is refused with what would be right."""
    listed = to_list(references, "references", '[["a reference", "another one"], …]')
    return [_reference_list(own, place) for place, own in enumerate(listed)]


def _reference_list(own: Any, place: int) -> list[Any]:
    if is_missing(own):
        return []
    if isinstance(own, str):
        raise BadInput(
            f"references[{place}] is a text, {shorten(own)}, and not a list of texts: each item has a list",
            remedy="with one reference an item: references=[[text] for text in references]",
        )
    plain = _plain(own)
    if not isinstance(plain, list):
        raise BadInput(
            f"references[{place}] is {_describe(own)}, and not a list of texts", remedy='[["…", "…"], ["…"]]'
        )
    return [reference for reference in plain if reference is not None]


def _require_lengths(count: int, name: str, lists: Mapping[str, Sequence[Any]]) -> None:
    for what, listed in lists.items():
        if len(listed) == count:
            continue
        streams = what == "references" and listed and all(len(own) == count for own in listed)
        remedy = (
            "these are streams, as sacrebleu takes them: references=list(zip(*references))"
            if streams
            else "one entry for each item, in the same order; None or [] where there is none"
        )
        raise Usage(f"{len(listed):,} {what} and {count:,} {name}", remedy=remedy)


def aligned_rows(
    predictions: Mapping[str, Sequence[str | None]], references: Any, utterances: Any
) -> list[Mapping[str, Any]]:
    """Return items of lists that go together; the items are numbered from 1, as those of line-aligned files."""
    (first, texts), *_ = predictions.items()
    columns: dict[str, Sequence[Any]] = {f"predictions[{name!r}]": listed for name, listed in predictions.items()}
    own_references = [] if references is None else reference_lists(references)
    own_utterances = [] if utterances is None else to_list(utterances, "utterances", '["…", "…"]')
    columns |= {"references": own_references} if references is not None else {}
    columns |= {"utterances": own_utterances} if utterances is not None else {}
    _require_lengths(len(texts), "predictions" if len(predictions) == 1 else f"predictions[{first!r}]", columns)
    return [
        {
            "id": str(place + 1),
            **_context(own_utterances[place] if own_utterances else None),
            "references": own_references[place] if own_references else [],
            "replies": _replies_at(predictions, place),
        }
        for place in range(len(texts))
    ]


def _context(utterance: Any) -> dict[str, object]:
    """Return an utterance, or the turns of a dialogue, as the fields of an item."""
    plain = _plain(utterance)
    if plain is None:
        return {}
    return {"turns": plain} if isinstance(plain, list) else {"utterance": plain}


def _replies_at(predictions: Mapping[str, Sequence[str | None]], place: int) -> dict[str, str]:
    return {name: text for name, texts in predictions.items() if (text := texts[place]) is not None}


def with_predictions(
    rows: Sequence[Mapping[str, Any]], predictions: Mapping[str, Sequence[str | None]]
) -> list[Mapping[str, Any]]:
    """Return items with these predictions instead of the replies that they have."""
    _require_lengths(len(rows), "items", {f"predictions[{name!r}]": texts for name, texts in predictions.items()})
    return [{**row, "replies": _replies_at(predictions, place)} for place, row in enumerate(rows)]


# ── Test items ────────────────────────────────────────────────────────────────────────────────────────────────────


def parse_rows(rows: Sequence[Mapping[str, Any]], *, on_error: str) -> tuple[list[Item | BadItem], tuple[str, ...]]:
    """Return test items, and a warning for each field that none has; BadInput for bad ones unless they are reported."""
    if on_error not in ("fail", "report"):
        raise Usage(f"on_error={on_error!r}", remedy="fail, or report")
    if not rows:
        raise BadInput("there are no items", remedy="give at least one")
    parsed, places = list[Item | BadItem](), dict[str, int]()
    for place, row in enumerate(rows):
        test_item = parse_item(row, where="items", line=place + 1, fallback_id=f"item-{place}")
        if isinstance(test_item, Item) and (before := places.setdefault(test_item.id, place)) != place:
            message = f"{test_item.id!r} is the id of items[{before}], too"
            test_item = BadItem(file="items", line=place + 1, item=test_item.id, field="id", message=message)
        parsed.append(test_item)
    bad = [ItemProblem.of(test_item) for test_item in parsed if isinstance(test_item, BadItem)]
    if bad and (on_error == "fail" or len(bad) == len(parsed)):
        more = f"; and {len(bad) - _SHOWN:,} more" if len(bad) > _SHOWN else ""
        listed = "; ".join(map(str, bad[:_SHOWN]))
        remedy = "correct them" if len(bad) == len(parsed) else 'correct them, or on_error="report" for the others'
        raise BadInput(f"{len(bad):,} of {len(parsed):,} items cannot be used: {listed}{more}", remedy=remedy)
    unused = [field for row in rows for field in unused_fields(row, _FIELDS)]
    return parsed, tuple(dict.fromkeys(field.warning for field in unused))
