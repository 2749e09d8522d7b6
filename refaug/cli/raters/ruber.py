"""`refaug train ruber …`: training networks of RUBER's unreferenced part, scoring replies."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final, NamedTuple

import typer

from refaug.cli.shared import network_commands
from refaug.cli.shared.field_options import with_options
from refaug.cli.shared.network_commands import run_training
from refaug.cli.shared.output import JsonFlag, file_or_stdin, print_json, print_table
from refaug.cli.shared.progress import display_progress
from refaug.cli.shared.score_options import StrictFlag, report_problems, require_all
from refaug.core.errors import Usage
from refaug.core.progress import Progress
from refaug.operations.training import TrainRuber
from refaug.scoring.items import BadItem, read_items

if TYPE_CHECKING:
    from refaug.core.home import Settings
    from refaug.rater.ruber.network import Relevance


NameArgument = Annotated[str, typer.Argument(help="Name of the ruber.", metavar="RUBER")]
SpecArgument = Annotated[
    str, typer.Argument(help="Name of the ruber, or name@version for one that is not published.", metavar="RUBER")
]
_KIND: Final = "ruber"


@with_options
def train_command(context: typer.Context, *, options: TrainRuber, as_json: JsonFlag = False) -> None:
    """Train a ruber on all pairs of logs; stopped, the same command goes on where it was."""
    from refaug.rater.ruber.build import train_ruber  # noqa: PLC0415  torch
    from refaug.scoring.home.indexes import cores  # noqa: PLC0415  compiles
    from refaug.scoring.home.torch_networks import learn_piece_vectors, ruber_places  # noqa: PLC0415

    places, order = ruber_places(context.obj), options.order(threads=options.threads or cores())
    train = partial(train_ruber, places, order, learn_vectors=learn_piece_vectors, again=options.again)
    run_training(context.obj, _KIND, train, as_json=as_json)


def resume_command(context: typer.Context, name: NameArgument, as_json: JsonFlag = False) -> None:
    """Go on with a training that was stopped, with the settings that it was started with."""
    from refaug.rater.ruber.build import RuberOrder, train_ruber  # noqa: PLC0415  torch
    from refaug.rater.training.order import interrupted_order  # noqa: PLC0415
    from refaug.scoring.home.torch_networks import learn_piece_vectors, ruber_places  # noqa: PLC0415

    places = ruber_places(context.obj)
    order = interrupted_order(places, RuberOrder, name)
    train = partial(train_ruber, places, order, learn_vectors=learn_piece_vectors, again=True)
    run_training(context.obj, _KIND, train, as_json=as_json)


# ── Scoring ───────────────────────────────────────────────────────────────────────────────────────────────────────────


def score_command(
    context: typer.Context,
    ruber: SpecArgument,
    utterance: Annotated[str | None, typer.Argument(help="What is replied to.")] = None,
    replies: Annotated[list[str] | None, typer.Argument(help="Replies to it.", metavar="REPLY…")] = None,
    items: Annotated[
        Path | None,
        typer.Option(
            "--items", help="Score the replies of a test file instead; - for JSONL from stdin.", metavar="FILE"
        ),
    ] = None,
    threads: network_commands.ThreadsOption = None,
    strict: StrictFlag = False,
    as_json: JsonFlag = False,
) -> None:
    """How related replies are to an utterance, from 0 to 1: given by hand, or those of a test file."""
    from refaug.scoring.home.torch_networks import open_ruber  # noqa: PLC0415  torch

    if items is not None:
        if utterance is not None:
            raise Usage("an utterance, and --items too", remedy="give one of the two")
        _score_items(
            context.obj, open_ruber(context.obj, ruber, threads=threads), items, strict=strict, as_json=as_json
        )
        return
    if strict:
        raise Usage("--strict without --items", remedy="leave --strict out: without a test file there are no items")
    if utterance is None or not replies:
        raise Usage("nothing is to be scored", remedy="give an utterance and a reply, or --items FILE")
    network = open_ruber(context.obj, ruber, threads=threads)
    scores = network.score([(utterance, reply) for reply in replies]).tolist()
    network_commands.warn_about(network.unfamiliar(network.coverage([utterance, *replies])), context.obj)
    if as_json:
        print_json({"ruber": network.spec, "scores": scores})
        return
    network_commands.print_texts(
        network.spec, "score", ((f"{score:.4f}", text) for score, text in zip(scores, replies, strict=True))
    )


class _ReplyRow(NamedTuple):
    """A reply of a test file."""

    item: str
    system: str
    utterance: str | None
    reply: str


def _score_items(settings: Settings, network: Relevance, items: Path, *, strict: bool, as_json: bool) -> None:
    bad = list[BadItem]()
    with display_progress(quiet=settings.quiet) as progress, file_or_stdin(items) as path:
        rows = list(_rows(path, "stdin" if str(items) == "-" else str(items), bad, progress))
        progress.stage("scoring replies", len(rows), "replies")
        pairs = [(row.utterance, row.reply) for row in rows if row.utterance is not None]
        scores = iter(network.score(pairs).tolist())
        scored = [(row, None if row.utterance is None else next(scores)) for row in rows]
        warning = network.unfamiliar(network.coverage([text for pair in pairs for text in pair]))
        report_problems(bad, () if warning is None else (warning,), progress, rest="")
    if as_json:
        replies = [{"item": row.item, "system": row.system, "score": score} for row, score in scored]
        print_json({"ruber": network.spec, "replies": replies})
    else:
        shown = [(row.item, row.system, None if score is None else f"{score:.4f}") for row, score in scored]
        print_table(network.spec, ("item", "system", "score"), shown)
    require_all(bad, strict=strict)


def _rows(path: Path, called: str, bad: list[BadItem], progress: Progress) -> Iterator[_ReplyRow]:
    """Yield the replies, item by item; bad items are added to `bad`."""
    for test_item in read_items(path, shown_name=called, on_unknown_field=progress.warn):
        if isinstance(test_item, BadItem):
            bad.append(test_item)
            continue
        for system, reply in test_item.replies.items():
            utterance = test_item.utterance or ""
            yield _ReplyRow(test_item.id, system, utterance if utterance.strip() else None, reply)
