"""`refaug index search`: references for utterances, or for a test file."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from core.errors import Usage
from service.cli.common import (
    JsonFlag,
    file_or_stdin,
    print_json_line,
    print_line,
    print_table,
)
from service.cli.index_common import ModeOption, SpecArgument, ThreadsOption, moment

if TYPE_CHECKING:
    from indexer.search import Retrieved


def search_command(
    context: typer.Context,
    index: SpecArgument,
    texts: Annotated[list[str] | None, typer.Argument(help="Utterances to find references for.")] = None,
    items: Annotated[Path | None, typer.Option(help="A test file; each item's references are found.")] = None,
    gold: Annotated[str | None, typer.Option(help="The response of the test pair: excluded, and compared.")] = None,
    k: Annotated[int, typer.Option("-k", help="How many references.", min=1, max=1_000)] = 15,
    mode: ModeOption = "embedding-utterance",
    depth: Annotated[int | None, typer.Option(help="Candidate utterances that are looked at.", min=1)] = None,
    exclude_dialogue: Annotated[
        list[str] | None, typer.Option(help="A dialogue to take nothing from; may be repeated.", metavar="ID")
    ] = None,
    exclude_log: Annotated[
        list[str] | None, typer.Option(help="A log to take nothing from; may be repeated.", metavar="LOG")
    ] = None,
    after: Annotated[str | None, typer.Option(help="Only pairs at or after this time.", metavar="TIME")] = None,
    before: Annotated[str | None, typer.Option(help="Only pairs before this time.", metavar="TIME")] = None,
    threads: ThreadsOption = None,
    as_json: JsonFlag = False,
) -> None:
    """Find references for utterances, most similar first; with --items or --json as JSON, one line a test pair."""
    from core.items import read_items  # noqa: PLC0415  only here
    from core.records import Item, Reference, TestPair  # noqa: PLC0415
    from indexer.queries import SearchSettings  # noqa: PLC0415  compiles
    from service.retrieval import open_index  # noqa: PLC0415

    if bool(texts) == (items is not None):
        raise Usage("give either utterances or --items FILE")
    settings = SearchSettings(
        k=k,
        mode=mode,  # type: ignore[arg-type]
        depth=depth,
        after=moment("--after", after),
        before=moment("--before", before),
        exclude_logs=tuple(exclude_log or ()),
    )
    blocked = tuple(exclude_dialogue or ())
    with open_index(context.obj, index, threads=threads) as opened:
        if items is not None:
            with file_or_stdin(items) as path:
                for batch in _batches(one for one in read_items(path)):
                    pairs = [one.pair for one in batch if isinstance(one, Item)]
                    found = iter(opened.search(pairs, settings))
                    for one in batch:
                        print_json_line(_found(one.id, next(found)) if isinstance(one, Item) else {"error": str(one)})
            return
        golds = (Reference(text=gold),) if gold else ()
        asked = [TestPair(id=text, turns=(text,), references=golds, exclude=blocked) for text in texts or ()]
        for pair, retrieved in zip(asked, opened.search(asked, settings), strict=True):
            if as_json:
                print_json_line(_found(pair.id, retrieved))
            else:
                _print_found(pair.id, retrieved)


def _batches(items: Any, size: int = 1_000) -> Any:
    batch = list[Any]()
    for item in items:
        batch.append(item)
        if len(batch) == size:
            yield batch
            batch = []
    if batch:
        yield batch


def _found(name: str, retrieved: Retrieved) -> dict[str, Any]:
    return {
        "id": name,
        "references": [
            {"text": one.text, "source": one.source, "similarity": one.similarity, **one.more}
            for one in retrieved.references
        ],
        "excluded": retrieved.excluded,
        **({"note": retrieved.note} if retrieved.note else {}),
    }


_NOTES: Mapping[str, str] = {
    "no_utterance": "there is no utterance to look for",
    "no_known_word": "the index knows none of its words",
    "no_gold": "this mode compares responses too: give the test pair's with --gold",
}


def _print_found(name: str, retrieved: Retrieved) -> None:
    rows = [
        (one.more["rank"], f"{one.similarity:.4f}", one.text, one.more["utterance"], one.more["pair"])
        for one in retrieved.references
    ]
    if rows:
        print_table(name, ("", "similarity", "response", "to", "pair"), rows)
    else:
        print_line(name)
        print_line(f"  nothing: {_NOTES.get(retrieved.note, 'all that is similar was excluded')}")
    if retrieved.excluded:
        listed = ", ".join(f"{reason.replace('_', ' ')} {count:,}" for reason, count in retrieved.excluded.items())
        print_line(f"  excluded: {listed}")
