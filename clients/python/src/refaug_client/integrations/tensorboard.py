"""Scores in TensorBoard: scalars, signature and references as text, and a table of replies."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Optional
from weakref import WeakKeyDictionary

from refaug_client.integrations.tracked_scores import Cell, Replies, TrackedScores

_LOGGED: WeakKeyDictionary[Any, dict[str, str]] = WeakKeyDictionary()  # the settings that each writer has written


def log_scores(
    writer: Any,
    scores: Any,
    *,
    step: Optional[int] = None,
    replies: Optional[Replies] = None,
    items: Optional[Sequence[str]] = None,
    name: str = "refaug",
    examples: int = 20,
) -> TrackedScores:
    """Log scores with a SummaryWriter, or have a scorer score replies and log that.

        log_scores(writer, client.score(items, metric="upsilon-bleu"), step=step)
        log_scores(writer, scorer, replies=replies, items=ids, step=step)

    Signatures and references are texts beside the scalars; scores by another signature than before are refused.
    `examples` is the number of replies in the table: the lowest and the highest scores. `name` begins all names. The
    writer may be any with `add_scalar` and `add_text`, such as that of torch.utils.tensorboard or tensorboardX.
    """
    tracked = TrackedScores.of(scores, name=name, replies=replies, items=items, examples=examples)
    logged = _LOGGED.setdefault(writer, {})
    tracked.require_settings(logged)
    for setting, text in tracked.settings.items():
        if setting not in logged:
            writer.add_text(setting, _as_code(text), global_step=step)
    logged.update(tracked.settings)
    for tag, number in tracked.numbers.items():
        writer.add_scalar(tag, number, global_step=step)
    if tracked.rows:
        writer.add_text(f"{name}/examples", _as_table(tracked.columns, tracked.rows), global_step=step)
    return tracked


def _as_table(columns: Sequence[str], rows: Sequence[Sequence[Cell]]) -> str:
    """Return a table of Markdown; text in it cannot end a cell or begin a tag."""
    lines = [columns, ["---"] * len(columns), *([_as_cell(cell) for cell in row] for row in rows)]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _as_cell(cell: Cell) -> str:
    if isinstance(cell, str):
        text = " ".join(cell.split())
        for mark, escaped in (("\\", "\\\\"), ("|", "\\|"), ("<", "&lt;"), ("`", "\\`"), ("*", "\\*"), ("_", "\\_")):
            text = text.replace(mark, escaped)
        return text
    return "" if cell is None else f"{cell:.4f}"


def _as_code(text: str) -> str:
    return f"`{text.replace('`', '')}`"
