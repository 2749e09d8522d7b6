"""`refaug index search`: references for utterances, or for a test file."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from refaug.cli.shared import output
from refaug.cli.shared.field_options import with_options
from refaug.cli.shared.index_options import SpecArgument, ThreadsOption
from refaug.core.errors import Usage
from refaug.indexer.search.search_settings import SearchSettings

if TYPE_CHECKING:
    from refaug.core.records import Item


@with_options
def search_command(
    context: typer.Context,
    index: SpecArgument,
    texts: Annotated[list[str] | None, typer.Argument(help="Utterances to find references for.")] = None,
    items: Annotated[Path | None, typer.Option(help="A test file; each item's references are found.")] = None,
    gold: Annotated[str | None, typer.Option(help="The response of the test pair: excluded, and compared.")] = None,
    *,
    settings: SearchSettings,
    exclude_dialogue: Annotated[
        list[str] | None, typer.Option(help="A dialogue to take nothing from; may be repeated.", metavar="ID")
    ] = None,
    threads: ThreadsOption = None,
    as_json: output.JsonFlag = False,
) -> None:
    """Find references for utterances, most similar first; with --items or --json as JSON, one line a test pair."""
    from refaug.core.records import Item, Reference  # noqa: PLC0415
    from refaug.scoring.home.indexes import open_index  # noqa: PLC0415
    from refaug.scoring.items import read_items  # noqa: PLC0415  only here

    if bool(texts) == (items is not None):
        raise Usage("give either utterances or --items FILE")
    blocked = tuple(exclude_dialogue or ())
    with open_index(context.obj, index, threads=threads) as opened:
        if items is not None:
            with output.file_or_stdin(items) as path:
                for batch in _batches(read_items(path)):
                    pairs = [test_item for test_item in batch if isinstance(test_item, Item)]
                    retrieved_of_batch = iter(opened.search(pairs, settings))
                    for test_item in batch:
                        output.print_json_line(
                            _retrieved_json(test_item.id, next(retrieved_of_batch))
                            if isinstance(test_item, Item)
                            else {"error": str(test_item)}
                        )
            return
        golds = (Reference(text=gold),) if gold else ()
        test_pairs = [Item(id=text, turns=(text,), references=golds, exclude=blocked) for text in texts or ()]
        for pair, retrieved in zip(test_pairs, opened.search(test_pairs, settings), strict=True):
            if as_json:
                output.print_json_line(_retrieved_json(pair.id, retrieved))
            else:
                _print_retrieved(pair.id, retrieved)


def _batches(test_items: Any, size: int = 1_000) -> Any:
    batch = list[Any]()
    for test_item in test_items:
        batch.append(test_item)
        if len(batch) == size:
            yield batch
            batch = []
    if batch:
        yield batch


def _retrieved_json(name: str, retrieved: Item) -> dict[str, object]:
    return {
        "id": name,
        "references": [
            {
                "text": reference.text,
                "source": reference.source,
                "similarity": reference.similarity,
                **reference.origin,
            }
            for reference in retrieved.references
        ],
        "excluded": {},
        **retrieved.search_notes,
    }


_NOTES: Mapping[str, str] = {
    "no_utterance": "there is no utterance to look for",
    "no_known_word": "the index knows none of its words",
    "no_gold": "this mode compares responses too: give the test pair's with --gold",
}


def _print_retrieved(name: str, retrieved: Item) -> None:
    rows = [
        (
            reference.more["rank"],
            f"{reference.similarity:.4f}",
            reference.text,
            reference.utterance,
            reference.more["pair"],
        )
        for reference in retrieved.references
    ]
    if rows:
        output.print_table(name, ("", "similarity", "response", "to", "pair"), rows)
    else:
        output.print_line(name)
        note = retrieved.search_notes.get("note", "")
        output.print_line(f"  nothing: {_NOTES.get(note, 'all that is similar was excluded')}")
    if excluded := retrieved.search_notes.get("excluded"):
        listed = ", ".join(f"{reason.replace('_', ' ')} {count:,}" for reason, count in excluded.items())
        output.print_line(f"  excluded: {listed}")
