"""Commands on ADEM, and on the VHREDs that its encoder is taken from."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from refaug.cli.shared import network_commands, output
from refaug.cli.shared.database import record_act
from refaug.cli.shared.field_options import with_options
from refaug.cli.shared.item_inputs import shown_name
from refaug.cli.shared.network_commands import run_training
from refaug.cli.shared.output import JsonFlag
from refaug.cli.shared.progress import display_progress
from refaug.core.artefacts.kinds import artefact_stores
from refaug.core.errors import Usage
from refaug.core.files import read_json, sha256_of
from refaug.extras.judges.operations import PretrainVhred, TrainAdem
from refaug.scoring.home.kinds import adem_figure

if TYPE_CHECKING:
    from refaug.core.home import Settings
    from refaug.core.progress import Progress
    from refaug.extras.judges.adem import LeftOutFile, RatedFile, Scale
    from refaug.rater.adem.scorer.rated_triples import Form


_VHRED: Final = "vhred"


@with_options
def pretrain_command(context: typer.Context, *, options: PretrainVhred, as_json: JsonFlag = False) -> None:
    """Pre-train a VHRED on dialogues, or draw the weights of one; stopped, the same command goes on where it was."""
    from refaug.extras.judges.adem import excluded_file, read_excluded  # noqa: PLC0415  torch
    from refaug.extras.judges.head_teachers import chosen_teachers, openers_for  # noqa: PLC0415
    from refaug.rater.adem.pretraining.build import pretrain_vhred  # noqa: PLC0415
    from refaug.scoring.home.indexes import cores  # noqa: PLC0415  compiles
    from refaug.scoring.home.torch_networks import vhred_places  # noqa: PLC0415

    excluded = [excluded_file(path) for path in options.exclude]
    teachers, places = chosen_teachers(context.obj, options), vhred_places(context.obj)
    order = options.order(threads=options.threads or cores(), exclude=excluded, teachers=teachers)
    openers = openers_for(context.obj, order.heads, threads=options.threads)
    train = partial(pretrain_vhred, places, order, read_excluded=read_excluded, openers=openers, again=options.again)
    run_training(context.obj, _VHRED, train, as_json=as_json)


def resume_command(
    context: typer.Context,
    name: Annotated[str, typer.Argument(help="Name of the VHRED.", metavar="NAME")],
    as_json: JsonFlag = False,
) -> None:
    """Go on with a pre-training that was stopped, with the settings that it was started with."""
    from refaug.extras.judges.adem import read_excluded  # noqa: PLC0415
    from refaug.extras.judges.head_teachers import openers_for  # noqa: PLC0415
    from refaug.rater.adem.pretraining.build import VhredOrder, pretrain_vhred  # noqa: PLC0415
    from refaug.rater.training.order import interrupted_order  # noqa: PLC0415
    from refaug.scoring.home.torch_networks import vhred_places  # noqa: PLC0415  torch

    places = vhred_places(context.obj)
    order = interrupted_order(places, VhredOrder, name)
    openers = openers_for(context.obj, order.heads, threads=order.training.threads)
    train = partial(pretrain_vhred, places, order, read_excluded=read_excluded, openers=openers, again=True)
    run_training(context.obj, _VHRED, train, as_json=as_json)


_ADEM: Final = "adem"
_SpecArgument = Annotated[
    str, typer.Argument(help="Name of the adem, or name@version for one that is not published.", metavar="ADEM")
]
_ItemsArgument = Annotated[
    list[Path],
    typer.Argument(
        help="Test files with ratings: JSONL with one item a line, or tables; - for stdin.", metavar="ITEMS…"
    ),
]
_ScaleOption = Annotated[
    str | None,
    typer.Option(help="Least and most rating where the items name no scale; without it, 1..5.", metavar="LOW..HIGH"),
]


@with_options
def train_command(
    context: typer.Context,
    items: _ItemsArgument,
    *,
    options: TrainAdem,
    scale: _ScaleOption = None,
    as_json: output.JsonFlag = False,
) -> None:
    """Fit a scorer to the ratings of test files, on the vectors of a frozen encoder.

    Rows that rate a gold itself are left out. A part of the contexts chooses the epoch and is never fitted to; how good
    the scorer is on other dialogues is what refaug train report adem --leave-one-out says.
    """
    from refaug.extras.judges.adem import AdemOrder, NamedEncoder, train_adem  # noqa: PLC0415  torch
    from refaug.scoring.home.torch_networks import open_vhred  # noqa: PLC0415

    settings = options.settings()
    order = AdemOrder(
        name=options.name or options.encoder.partition("@")[0],
        settings=settings,
        without_systems=options.without_systems,
        fraction=options.fraction,
        publish=options.publish,
    )
    with display_progress(quiet=context.obj.quiet) as progress:
        files = _read_files(items, settings.form, scale, progress)
        vhred = open_vhred(context.obj, options.encoder, threads=options.threads)
        named = NamedEncoder(encoder=vhred, id=vhred.id)
        trained = train_adem(context.obj, artefact_stores(context.obj)[_ADEM], order, files, named, progress)
    if trained.published:
        record_act(context.obj, "publish", f"{_ADEM} {trained.name}@{trained.version}")
    network_commands.print_training_result(context.obj, _ADEM, trained, as_json=as_json)


def _read_files(paths: Sequence[Path], form: Form, scale: str | None, progress: Progress) -> list[RatedFile]:
    """Read the rated rows of every file; bad items are reported, and the rest is used."""
    from refaug.extras.judges.adem import parse_scale  # noqa: PLC0415

    if twice := next((path for path in paths if paths.count(path) > 1), None):
        raise Usage(f"{twice} is named twice", remedy="name each file once")
    by_option = None if scale is None else parse_scale(scale)
    with ExitStack() as stack:
        return [
            _read_file(stack.enter_context(output.file_or_stdin(path)), shown_name(path), form, by_option, progress)
            for path in paths
        ]


def _read_file(path: Path, called: str, form: Form, scale: Scale | None, progress: Progress) -> RatedFile:
    from refaug.cli.shared.score_options import report_problems  # noqa: PLC0415
    from refaug.extras.judges.adem import rated_file  # noqa: PLC0415
    from refaug.scoring.items import BadItem, read_items  # noqa: PLC0415

    items = list(read_items(path, shown_name=called, on_unknown_field=progress.warn))
    report_problems([bad for bad in items if isinstance(bad, BadItem)], [], progress)
    return rated_file(Path(called).name, items, form, sha256=sha256_of(path), scale=scale)


# ── Report ────────────────────────────────────────────────────────────────────────────────────────────────────────────


def report_command(
    context: typer.Context,
    adem: _SpecArgument,
    *,
    leave_one_out: Annotated[
        list[Path],
        typer.Option(
            "--leave-one-out",
            help="A test file with ratings; repeat it: each group of files that share contexts is scored by a scorer "
            "with the settings of the adem that was fitted to all others.",
            metavar="ITEMS",
        ),
    ],
    scale: _ScaleOption = None,
    draws: Annotated[int, typer.Option(help="Draws of the bootstrap over contexts.", min=1, max=100_000)] = 1_000,
    threads: network_commands.ThreadsOption = None,
    as_json: output.JsonFlag = False,
) -> None:
    """How well scorers with these settings agree with people on files that they are not fitted to."""
    _report_left_out(context.obj, adem, leave_one_out, scale, draws, threads, as_json=as_json)


def _report_left_out(
    settings: Settings,
    adem: str,
    items: Sequence[Path],
    scale: str | None,
    draws: int,
    threads: int | None,
    *,
    as_json: bool,
) -> None:
    from refaug.extras.judges.adem import leave_one_out  # noqa: PLC0415
    from refaug.rater.adem.scorer.settings import ScorerSettings  # noqa: PLC0415
    from refaug.scoring.home.torch_networks import open_stored_adem  # noqa: PLC0415  torch

    with display_progress(quiet=settings.quiet) as progress:
        opened = open_stored_adem(settings, adem, threads=threads)
        with artefact_stores(settings)[_ADEM].open(adem) as held:
            manifest: dict[str, Any] = read_json(held.folder / "manifest.json")
        fitted_by = ScorerSettings.read(manifest["details"]["settings"])
        files = _read_files(items, opened.form, scale, progress)
        seed = fitted_by.seed
        left_out = list(leave_one_out(files, opened.encoder, fitted_by, draws=draws, seed=seed, progress=progress))
    if as_json:
        output.print_json({"adem": opened.spec, "draws": draws, "files": [file.as_json() for file in left_out]})
        return
    _print_left_out(left_out)


def _print_left_out(left_out: Sequence[LeftOutFile]) -> None:
    names = {"spearman": "Spearman", "partial-spearman": "partial Spearman", "pearson": "Pearson"}
    rows = [
        (file.name, line, *(_interval(kinds[kind].as_json()) for kind in names))
        for file in left_out
        for line, kinds in file.figures.items()
    ]
    output.print_table("left out", ("file", "line", *names.values()), rows)
    for file in left_out:
        output.print_line(
            f"{file.name}: {file.rows:,} replies to {file.contexts:,} contexts, fitted to {', '.join(file.trained_on)}"
        )


def _interval(figure: Mapping[str, float | None]) -> str:
    if figure["value"] is None or figure["low"] is None or figure["high"] is None:
        return adem_figure(figure["value"])
    return f"{figure['value']:.3f} [{figure['low']:.3f}, {figure['high']:.3f}]"


# ── Scores by hand ────────────────────────────────────────────────────────────────────────────────────────────────────


def score_command(
    context: typer.Context,
    adem: _SpecArgument,
    dialogue: Annotated[
        str,
        typer.Argument(
            help="The turns before the reply, a line each; empty where the form needs none.", metavar="CONTEXT"
        ),
    ],
    reference: Annotated[str, typer.Argument(help="A good reply; empty where the form needs none.")],
    replies: Annotated[list[str], typer.Argument(help="Replies to score.", metavar="REPLY…")],
    threads: network_commands.ThreadsOption = None,
    as_json: output.JsonFlag = False,
) -> None:
    """Score replies that are given by hand, on the scale from 1 to 5; replies of test files: refaug score -m adem."""
    from refaug.rater.adem.scorer.rated_triples import Triple  # noqa: PLC0415
    from refaug.scoring.home.torch_networks import open_stored_adem  # noqa: PLC0415  torch

    opened = open_stored_adem(context.obj, adem, threads=threads)
    turns = tuple(line for line in dialogue.splitlines() if line.strip())
    if opened.form.has_context and not turns:
        raise Usage(
            f"an adem of the form {opened.form.value} compares replies with the context, and it is empty",
            remedy="give the turns before the reply, or an adem of the form reference",
        )
    if opened.form.has_reference and not reference.strip():
        raise Usage(
            f"an adem of the form {opened.form.value} compares replies with a reference, and it is empty",
            remedy="give a good reply, or an adem of the form context",
        )
    triples = [Triple(context=turns, reference=reference, reply=reply) for reply in replies]
    scores = opened.score(triples).tolist()
    is_seen = [opened.seen.contains(turns, (reference,), reply) for reply in replies]
    if any(is_seen):
        network_commands.warn_about(
            f"the adem was fitted to this context, or to {sum(is_seen):,} of the replies", context.obj
        )
    if as_json:
        output.print_json({"adem": opened.spec, "scores": scores, "trained_on": is_seen})
        return
    network_commands.print_texts(
        opened.spec, "score", ((f"{score:.4f}", text) for score, text in zip(scores, replies, strict=True))
    )
