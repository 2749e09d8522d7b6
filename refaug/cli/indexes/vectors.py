"""`refaug index vectors …`: training word vectors on logs, importing published ones, trying them."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from refaug.cli.shared import output
from refaug.cli.shared.database import record_act
from refaug.cli.shared.field_options import with_options
from refaug.cli.shared.index_options import connected
from refaug.cli.shared.progress import display_progress
from refaug.core.artefacts.manifests import MANIFEST
from refaug.core.errors import Usage
from refaug.core.files import read_json
from refaug.core.home import Settings
from refaug.operations.train_vectors import TrainVectors
from refaug.scoring.home.kinds import coverage_facts, training_facts

if TYPE_CHECKING:
    from refaug.indexer.vectors.training import StoredVectors


NameArgument = Annotated[str, typer.Argument(help="Name of the vectors.", metavar="VECTORS")]
SpecArgument = Annotated[
    str, typer.Argument(help="Name of the vectors, or name@version for ones not published.", metavar="VECTORS")
]
PublishOption = Annotated[bool, typer.Option(help="Let them be what their name stands for from now on.")]


@with_options
def train_command(context: typer.Context, *, order: TrainVectors, as_json: output.JsonFlag = False) -> None:
    """Train GloVe vectors on logs; the same logs, settings and seed give the same bits, interrupted or not."""
    from refaug.indexer.vectors.training import train_vectors  # noqa: PLC0415  compiles
    from refaug.scoring.home.indexes import places_of  # noqa: PLC0415

    with connected(order.on) as cluster, display_progress(quiet=context.obj.quiet) as progress:
        trained = train_vectors(
            places_of(context.obj),
            order.order(threads=order.threads, tokenizer=order.tokenizer),
            progress,
            on_epoch=lambda epoch, loss: progress.say(f"epoch {epoch}: loss {loss:.6f}"),
            again=order.again,
            cluster=cluster,
        )
    _record_stored(context.obj, trained)
    _print_stored(trained, as_json=as_json)


def _record_stored(home: Settings, stored: StoredVectors) -> None:
    if stored.published:
        record_act(home, "publish", f"vectors {stored.name}@{stored.version}")


def _print_stored(stored: StoredVectors, *, as_json: bool) -> None:
    if as_json:
        output.print_json(asdict(stored))
        return
    facts: dict[str, Any] = {
        "words": stored.words,
        "dimensions": stored.dimensions,
        "sha256": stored.sha256[:12],
        "published": stored.published,
        **({} if stored.is_new else {"note": "made of exactly this before: nothing to do; --again makes them anew"}),
        **training_facts(stored.details),
    }
    output.print_facts(f"vectors {stored.name}@{stored.version}", facts)


def import_command(
    context: typer.Context,
    name: NameArgument,
    file: Annotated[Path, typer.Argument(help="GloVe or word2vec vectors, text or binary, plain or .gz.")],
    tokenizer: Annotated[
        str | None, typer.Option(help="Tokenizer that finds their words; by default what suits a log's language.")
    ] = None,
    publish: PublishOption = True,
    as_json: output.JsonFlag = False,
) -> None:
    """Take over published vectors: read once, memory-mapped from then on."""
    from refaug.indexer.vectors.training import import_vectors  # noqa: PLC0415  compiles
    from refaug.scoring.home.indexes import places_of  # noqa: PLC0415

    with display_progress(quiet=context.obj.quiet) as progress:
        progress.stage(f"reading {file.name}")
        imported = import_vectors(places_of(context.obj), name, file, tokenizer=tokenizer, publish=publish)
    _record_stored(context.obj, imported)
    _print_stored(imported, as_json=as_json)


def try_command(
    context: typer.Context,
    vectors: SpecArgument,
    log: Annotated[
        list[str] | None, typer.Option(help="Count what they know of this log; may be repeated.", metavar="LOG")
    ] = None,
    like: Annotated[
        list[str] | None, typer.Option(help="Show the words most like this one; may be repeated.", metavar="WORD")
    ] = None,
    as_json: output.JsonFlag = False,
) -> None:
    """What vectors know of a log, and which words they take for alike."""
    from refaug.core.text.tokenizers import get_tokenizer  # noqa: PLC0415
    from refaug.indexer.index_folders import open_vectors_version  # noqa: PLC0415  compiles
    from refaug.indexer.tokens import default_tokenizer_for, load_tokenizer  # noqa: PLC0415  compiles
    from refaug.indexer.vectors.training import coverage_of, nearest_words  # noqa: PLC0415
    from refaug.logs.store import StoredLog  # noqa: PLC0415  only here
    from refaug.scoring.home.indexes import places_of  # noqa: PLC0415

    if not log and not like:
        raise Usage(
            "nothing is to be tried", remedy=f"--log LOG or --like WORD; refaug artefacts show vectors {vectors}"
        )
    places = places_of(context.obj)
    with places.vectors.open(vectors) as open_version, display_progress(quiet=context.obj.quiet) as progress:
        word_vectors = open_vectors_version(open_version)
        logs = [StoredLog.open(places.logs, name) for name in log or ()]
        coverage = None
        if logs:
            name = read_json(open_version.folder / MANIFEST).get("details", {}).get("tokenizer")  # type: ignore[attr-defined]
            tokenizer = (
                load_tokenizer(name, open_version.folder) if name else get_tokenizer(default_tokenizer_for(logs))
            )
            coverage = asdict(coverage_of(word_vectors, logs, tokenizer, progress))
        near = {word: nearest_words(word_vectors, word, 10) for word in like or ()}
    if as_json:
        spec = {"name": open_version.name, "version": open_version.version}
        output.print_json({**spec, "of_logs": coverage, "nearest": near})
        return
    if coverage is not None:
        output.print_facts(f"of {', '.join(log or ())}", coverage_facts(coverage))
    for word, words in near.items():
        output.print_table(f"like {word}", ("word", "cosine"), words)


def write_command(
    context: typer.Context,
    vectors: SpecArgument,
    file: Annotated[Path, typer.Argument(help="The text file to write.")],
    header: Annotated[
        bool, typer.Option("--header", help="With word2vec's first line of counts; GloVe's files have none.")
    ] = False,
) -> None:
    """Write vectors as text, a word and its numbers a line, for other tools."""
    from refaug.indexer.index_folders import open_vectors_version  # noqa: PLC0415  compiles
    from refaug.indexer.vectors.training import write_text  # noqa: PLC0415  compiles
    from refaug.scoring.home.indexes import places_of  # noqa: PLC0415

    with places_of(context.obj).vectors.open(vectors) as open_version:
        word_vectors = open_vectors_version(open_version)
        digest = write_text(word_vectors, file, header=header)
    words = output.count_of(len(word_vectors.words), "word")
    output.print_line(f"{file}: {words} of {word_vectors.dimensions} dimensions, SHA-256 {digest[:12]}")
