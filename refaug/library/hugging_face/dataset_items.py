"""The rows of a dataset as items: columns by their names."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from refaug.core.errors import BadInput, MissingField, Usage


def items_from(
    dataset: Iterable[Mapping[str, Any]],
    *,
    references: str | Sequence[str] | None = None,
    utterance: str | None = None,
    turns: str | None = None,
    replies: str | Mapping[str, str] | None = None,
    id: str | None = None,  # noqa: A002  the name of the field
) -> Iterator[dict[str, object]]:
    """Yield an item for each row of a dataset of Hugging Face, or of any other table whose rows are objects.

        dataset = datasets.load_dataset("json", data_files="test.jsonl", split="train")
        items = items_from(dataset, utterance="question", references="answers", replies={"new": "prediction"})
        refaug.score(items, metric="upsilon-bleu", index="demo", rater="demo")

    `references` is a column of texts or of lists of texts, or several such columns; `replies` a column, or a column for
    each system. `turns` is a column of dialogues before the reply, each a list of texts or of messages with a
    `content`. Without `id`, an item is named by the number of its row.
    """
    if references is None and utterance is None and turns is None:
        raise Usage("no column is named", remedy="references='…', utterance='…' or turns='…'")
    if utterance is not None and turns is not None:
        raise Usage("utterance=… and turns=…", remedy="one of the two: the last turn is the utterance")
    if isinstance(dataset, Mapping):
        raise Usage(f"a dictionary of splits: {', '.join(map(str, dataset))}", remedy="one of them: dataset['test']")
    systems = {"model": replies} if isinstance(replies, str) else dict(replies or {})
    reference_columns = [references] if isinstance(references, str) else list(references or ())
    for number, row in enumerate(dataset):
        built: dict[str, object] = {"id": f"row-{number}" if id is None else str(_cell(row, id, number))}
        if utterance is not None:
            built["utterance"] = _cell(row, utterance, number)
        if turns is not None:
            built["turns"] = _turns(_cell(row, turns, number), turns, number)
        if reference_columns:
            built["references"] = [
                text for column in reference_columns for text in _texts(_cell(row, column, number)) if text is not None
            ]
        if systems:
            built["replies"] = {name: _cell(row, column, number) for name, column in systems.items()}
        yield built


def _cell(row: Mapping[str, Any], column: str, number: int) -> Any:
    try:
        return row[column]
    except KeyError:
        raise MissingField(
            f"row {number} has no column {column!r}", remedy=f"its columns: {', '.join(map(str, row))}"
        ) from None


def _texts(cell: Any) -> Sequence[Any]:
    """Return the texts of a cell; answers of SQuAD are an object with a list `text`."""
    if isinstance(cell, Mapping) and isinstance(cell.get("text"), Sequence) and not isinstance(cell["text"], str):
        return list(cell["text"])
    return list(cell) if _is_list(cell) else [cell]


def _is_list(cell: Any) -> bool:
    """Whether a cell is a list of any library."""
    return isinstance(cell, Iterable) and not isinstance(cell, str | bytes | Mapping)


def _turns(cell: Any, column: str, number: int) -> list[str]:
    if not _is_list(cell):
        raise BadInput(f"row {number}, column {column!r}: it is {type(cell).__name__}, not a list of turns")
    return [_turn(turn, column, number) for turn in cell]


def _turn(turn: Any, column: str, number: int) -> str:
    text = turn.get("content", turn.get("value")) if isinstance(turn, Mapping) else turn
    if not isinstance(text, str):
        raise BadInput(f"row {number}, column {column!r}: a turn is {type(turn).__name__}, not a text or a message")
    return text
