"""`refaug rater …`: training raters on logs, looking at them, letting versions serve, rating by hand."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from core.artefacts import verify_files
from core.errors import Corrupt, Usage
from core.files import read_json
from service.cli.common import (
    JsonFlag,
    MemoryOption,
    counted,
    parse_size,
    print_facts,
    print_json,
    print_line,
    print_published,
    print_table,
)
from service.cli.progress import ShownProgress, shown_progress
from service.cli.rater_evaluate import evaluate_command
from service.cli.rater_negatives import negatives_command
from service.cli.rater_report import report_command

if TYPE_CHECKING:
    from rater.making import MadeRater
    from rater.train import EpochFigures, Now

app = typer.Typer(help="Train raters on logs, publish them, ask them.", no_args_is_help=True)

NameArgument = Annotated[str, typer.Argument(help="Name of the rater.", metavar="RATER")]
SpecArgument = Annotated[
    str, typer.Argument(help="Name of the rater, or name@version for one that is not published.", metavar="RATER")
]
ThreadsOption = Annotated[
    int | None, typer.Option(help="Threads; by default one for each core.", metavar="N", min=1, max=1024)
]
_SAY_EVERY_S: Final = 15.0
_SHOWN: Final = 200  # characters of a text in a table


@app.command("train")
def train_command(
    context: typer.Context,
    logs: Annotated[list[str], typer.Argument(help="Logs that are learned from.", metavar="LOG…")],
    more_texts: Annotated[
        list[str] | None,
        typer.Option(
            "--more-texts",
            help="A further log: its turns teach which pieces there are and which are alike, and no examples are made "
            "of it; may be repeated.",
            metavar="LOG",
        ),
    ] = None,
    name: Annotated[str | None, typer.Option(help="Name of the rater; by default that of the first log.")] = None,
    preset: Annotated[str, typer.Option(help="Sizes that go together: paper, base or small.")] = "base",
    epochs: Annotated[
        int | None, typer.Option(help="At most so many; by default the preset's: 15 for paper, else 5.", min=1)
    ] = None,
    patience: Annotated[int, typer.Option(help="Epochs without a lower validation loss that end it.", min=1)] = 3,
    learning_rate: Annotated[float, typer.Option(help="Of Adam.")] = 1e-3,
    decay: Annotated[
        str | None,
        typer.Option(
            help="none, or linear: after a fifth of all epochs the learning rate falls to a fiftieth at their end; by "
            "default the preset's."
        ),
    ] = None,
    dropout: Annotated[
        float | None, typer.Option(help="Share of an embedding's numbers left out in a batch; by default the preset's.")
    ] = None,
    batch: Annotated[int | None, typer.Option(help="Examples a batch; by default the preset's.", min=1)] = None,
    accumulate: Annotated[int, typer.Option(help="Batches a step.", min=1)] = 1,
    positives: Annotated[
        int | None, typer.Option(help="Positive examples an epoch, drawn anew each time; by default all.", min=1)
    ] = None,
    max_tokens: Annotated[int, typer.Option(help="Pieces of a text that are read.", min=1)] = 128,
    min_words: Annotated[
        int | None,
        typer.Option(help="Words of the shortest utterance; by default four, or ten characters.", min=1),
    ] = None,
    min_chars: Annotated[
        int | None,
        typer.Option(help="The same in characters, where words are not set apart by spaces.", min=1),
    ] = None,
    validation_share: Annotated[float, typer.Option(help="Of the utterances, never trained on.")] = 0.05,
    embeddings: Annotated[
        str | None,
        typer.Option(
            help="What they start from: vectors of the pieces, learnt from the logs first, or random numbers; by "
            "default the preset's."
        ),
    ] = None,
    negatives: Annotated[
        str,
        typer.Option(
            help="random: responses to drawn utterances; hard: such as share rare words with the good one; mixed: "
            "half of either."
        ),
    ] = "random",
    device: Annotated[str, typer.Option(help="cpu or cuda.")] = "cpu",
    seed: Annotated[int, typer.Option(help="Another seed, another rater.", min=0, max=2**32 - 1)] = 1,
    threads: ThreadsOption = None,
    memory: MemoryOption = "2GiB",
    publish: Annotated[bool, typer.Option(help="Let it be what its name stands for from now on.")] = True,
    again: Annotated[
        bool, typer.Option("--again", help="Train even if the published rater was made of exactly this.")
    ] = False,
    as_json: JsonFlag = False,
) -> None:
    """Train a rater on utterances that got several responses; stopped, the same command goes on where it was."""
    from core.pairs import SharedSettings  # noqa: PLC0415
    from rater.examples import ExampleSettings  # noqa: PLC0415
    from rater.making import PRESETS, RaterOrder, train_rater  # noqa: PLC0415  torch
    from rater.model import RaterConfig  # noqa: PLC0415
    from rater.train import TrainConfig  # noqa: PLC0415
    from service.piece_vectors import learn_piece_vectors  # noqa: PLC0415
    from service.rating import rater_places  # noqa: PLC0415
    from service.retrieval import cores  # noqa: PLC0415

    if preset not in PRESETS:
        raise Usage(f"there is no preset {preset!r}", remedy=f"one of: {', '.join(PRESETS)}")
    sizes = PRESETS[preset]
    order = RaterOrder(
        name=name or logs[0],
        logs=tuple(logs),
        more_texts=tuple(more_texts or ()),
        model=RaterConfig(
            embedding=sizes.embedding,
            hidden=sizes.hidden,
            width=sizes.width,
            max_tokens=max_tokens,
            features=sizes.features,
        ),
        examples=ExampleSettings(
            batch=batch or sizes.batch,
            limit=positives,
            validation_share=validation_share,
            seed=seed,
            negatives=negatives,  # type: ignore[arg-type]
        ),
        training=TrainConfig(
            epochs=sizes.epochs if epochs is None else epochs,
            patience=patience,
            learning_rate=learning_rate,
            decay=sizes.decay if decay is None else decay,  # type: ignore[arg-type]
            dropout=sizes.dropout if dropout is None else dropout,
            accumulate=accumulate,
            seed=seed,
            device=device,
            threads=threads or cores(),
        ),
        shared=None
        if min_words is None and min_chars is None
        else SharedSettings(min_words=min_words or 1, min_chars=min_chars or 1, seed=seed),
        pieces=sizes.pieces,
        start=sizes.start if embeddings is None else embeddings,  # type: ignore[arg-type]
        memory=parse_size(memory),
        publish=publish,
    )
    with shown_progress(quiet=context.obj.quiet) as progress:
        made = train_rater(
            rater_places(context.obj),
            order,
            progress,
            _Told(progress),
            _said(progress),
            learn_vectors=learn_piece_vectors,
            illustrate=_illustrated,
            again=again,
        )
    _print_made(made, as_json=as_json)


@app.command("resume")
def resume_command(context: typer.Context, name: NameArgument, as_json: JsonFlag = False) -> None:
    """Go on with a training that was stopped, with the settings that it was started with."""
    from rater.making import resume_rater  # noqa: PLC0415  torch
    from service.piece_vectors import learn_piece_vectors  # noqa: PLC0415
    from service.rating import rater_places  # noqa: PLC0415

    with shown_progress(quiet=context.obj.quiet) as progress:
        made = resume_rater(
            rater_places(context.obj),
            name,
            progress,
            _Told(progress),
            _said(progress),
            learn_vectors=learn_piece_vectors,
            illustrate=_illustrated,
        )
    _print_made(made, as_json=as_json)


def _illustrated(report: Mapping[str, Any]) -> Mapping[str, bytes]:
    from service.rater_plots import illustrations  # noqa: PLC0415  matplotlib

    return illustrations(report)


class _Told:
    """Says now and then where the training is."""

    def __init__(self, progress: ShownProgress) -> None:
        self._progress, self._said = progress, monotonic()

    def __call__(self, now: Now) -> None:
        if monotonic() - self._said < _SAY_EVERY_S:
            return
        self._said = monotonic()
        self._progress.say(
            f"epoch {now.epoch}, batch {now.step:,} of {now.steps:,}: loss {now.loss:.4f}, "
            f"accuracy {now.accuracy:.3f}, {now.examples_a_second:,.0f} examples/s, "
            f"at most {now.seconds_left / 60:,.0f} min left"
        )


def _said(progress: ShownProgress) -> Any:
    def say(figures: EpochFigures) -> None:
        progress.say(
            f"epoch {figures.epoch}: loss {figures.train_loss:.4f}, on validation {figures.validation_loss:.4f}, "
            f"accuracy {figures.validation_accuracy:.3f}, AUC {figures.auc:.3f}, {figures.seconds:.0f} s"
        )

    return say


def _print_made(made: MadeRater, *, as_json: bool) -> None:
    if as_json:
        print_json(
            {
                "name": made.name,
                "version": made.version,
                "id": made.id,
                "published": made.published,
                "new": made.is_new,
                "report": dict(made.report),
            }
        )
        return
    note = {} if made.is_new else {"note": "made of exactly this before: nothing to do; --again trains it anew"}
    print_facts(
        f"rater {made.name}@{made.version}",
        {"id": made.id[:12], "published": made.published, **note, **_of_report(made.report)},
    )


def _of_report(report: Any) -> dict[str, Any]:
    """What is worth reading of it."""
    return {
        "parameters": report["parameters"],
        "shared_utterances": report["mined"]["utterances"],
        "positive_examples": report["examples"]["train"]["positive"],
        "best_epoch": report["best_epoch"],
        "validation_loss": f"{report['validation_loss']:.4f}",
        "validation_accuracy": f"{report['validation_accuracy']:.4f}",
        "auc_good_vs_wrong": f"{report['auc_good_vs_wrong']:.4f}",
        **_on_hard(report.get("hard")),
        "calibration_error": f"{report['calibration']['raw']['error']:.4f}",
        "temperature": f"{report['temperature']:.3f}",
        "with_temperature": f"{report['calibration']['cal']['error']:.4f}",
    }


def _on_hard(measured: Any) -> dict[str, Any]:
    """How it does on hard negatives, if that was measured; some of them would do as responses."""
    if measured is None:
        return {}
    return {
        "auc_good_vs_hard": f"{measured['auc_good_vs_hard']:.4f}",
        "hard_taken_for_good": f"{100 * measured['taken_for_good']:.0f} %",
    }


@app.command("list")
def list_command(context: typer.Context, as_json: JsonFlag = False) -> None:
    """All raters with their versions; the published one is marked."""
    from service.artefacts import stored  # noqa: PLC0415

    raters = stored(context.obj)["rater"]
    rows = [
        _listed(raters.folder(name, version), name, version, current=version == raters.current(name))
        for name in raters.names()
        for version in raters.versions(name)
    ]
    if as_json:
        print_json({"raters": rows})
    elif rows:
        print_table(f"raters in {raters.root}", list(rows[0]), [list(row.values()) for row in rows])
    else:
        print_line(f"no raters in {raters.root} yet: refaug rater train LOG")


def _listed(folder: Path, name: str, version: str, *, current: bool) -> dict[str, Any]:
    row: dict[str, Any] = {"name": name, "version": version, "published": current}
    try:
        manifest, report = _manifest_and_report(folder)
    except Corrupt as error:
        return {**row, "hidden": None, "auc_good_vs_wrong": None, "id": error.message}
    auc = report.get("auc_good_vs_wrong")
    return {
        **row,
        "hidden": manifest["config"].get("hidden"),
        "auc_good_vs_wrong": None if auc is None else round(float(auc), 4),
        "id": str(manifest.get("id"))[:12],
    }


def _manifest_and_report(folder: Path) -> tuple[dict[str, Any], dict[str, Any]]:
    """Both as they were written, or Corrupt; neither weights nor torch are touched."""
    manifest: dict[str, Any] = read_json(folder / "manifest.json")
    for name in ("config", "details", "files"):
        if not isinstance(manifest.get(name), dict):
            raise Corrupt(f"{folder / 'manifest.json'} has no {name}", remedy="restore it from a backup")
    files = {name: facts for name, facts in manifest["files"].items() if name == "report.json"}
    verify_files(folder, {"files": files})
    return manifest, read_json(folder / "report.json") if files else {}


@app.command("show")
def show_command(context: typer.Context, rater: SpecArgument, as_json: JsonFlag = False) -> None:
    """How a rater was made, and how good it is on utterances that it was not trained on."""
    from service.artefacts import stored  # noqa: PLC0415

    with stored(context.obj)["rater"].open(rater) as held:
        manifest, report = _manifest_and_report(held.folder)
    if as_json:
        print_json({**manifest, "name": held.name, "version": held.version, "report": report})
        return
    facts = {"id": str(manifest["id"])[:12], "logs": ", ".join(manifest["details"]["logs"]), **manifest["config"]}
    print_facts(f"rater {held.name}@{held.version}", {**facts, **_of_report(report)})
    columns = ("epoch", "train_loss", "validation_loss", "validation_accuracy", "auc", "seconds")
    rows = [[one["epoch"], *(f"{one[name]:.4f}" for name in columns[1:5]), one["seconds"]] for one in report["epochs"]]
    print_table("epochs", columns, rows)


app.command("report")(report_command)
app.command("negatives")(negatives_command)


@app.command("rate")
def rate_command(
    context: typer.Context,
    rater: SpecArgument,
    utterance: Annotated[str, typer.Argument(help="The test utterance.")],
    gold: Annotated[str, typer.Argument(help="A response that is known to fit.")],
    candidates: Annotated[list[str], typer.Argument(help="Texts to be rated.", metavar="TEXT…")],
    to: Annotated[str | None, typer.Option(help="The utterance that the texts answered, if another one.")] = None,
    combine: Annotated[
        str, typer.Option(help="first, first-literal, max, confident or mean: see the page on raters.")
    ] = "first",
    calibrated: Annotated[bool, typer.Option("--calibrated", help="With the rater's temperature.")] = False,
    as_json: JsonFlag = False,
) -> None:
    """Rate texts as responses to an utterance, from −1 to 1."""
    from rater.rate import Candidate, RatingSettings, ToRate  # noqa: PLC0415  torch
    from service.rating import open_rater  # noqa: PLC0415

    settings = RatingSettings(combine=combine, calibration="cal" if calibrated else "raw")  # type: ignore[arg-type]
    opened = open_rater(context.obj, rater)
    asked = ToRate(
        utterance=utterance,
        golds=(gold,),
        candidates=tuple(Candidate(text=text, utterance=to) for text in candidates),
    )
    ratings = opened.rate([asked], settings)[0]
    told = opened.unfamiliar(opened.coverage([utterance, gold, *candidates]))
    if told is not None:
        with shown_progress(quiet=context.obj.quiet) as progress:
            progress.warn(told)
    if as_json:
        print_json({"rater": opened.spec, "combine": combine, "ratings": ratings})
        return
    rows = [(f"{one:+.4f}", _beginning(text)) for one, text in zip(ratings, candidates, strict=True)]
    print_table(opened.spec, ("rating", "text"), rows)


def _beginning(text: str) -> str:
    """So much of a text that a row can be told from others; the JSON has no texts, but all ratings in their order."""
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…"


app.command("evaluate")(evaluate_command)


@app.command("publish")
def publish_command(context: typer.Context, rater: SpecArgument, as_json: JsonFlag = False) -> None:
    """Let a name stand for this version."""
    from service.artefacts import stored  # noqa: PLC0415

    name, at, version = rater.partition("@")
    if not at:
        raise Usage(f"{rater!r} names no version", remedy="give NAME@VERSION: refaug rater list")
    stored(context.obj)["rater"].publish(name, version)
    print_published("rater", name, version, as_json=as_json)


@app.command("rollback")
def rollback_command(
    context: typer.Context,
    name: NameArgument,
    to: Annotated[str | None, typer.Option(help="The version to go back to.", metavar="VERSION")] = None,
    as_json: JsonFlag = False,
) -> None:
    """Let the name stand for the version before again."""
    from service.artefacts import stored  # noqa: PLC0415

    version = stored(context.obj)["rater"].rollback(name, to)
    print_published("rater", name, version, as_json=as_json)


@app.command("gc")
def gc_command(
    context: typer.Context,
    name: NameArgument,
    keep: Annotated[int, typer.Option(help="So many of the newest versions stay.", min=0)] = 3,
    as_json: JsonFlag = False,
) -> None:
    """Remove old versions; those stay that are published or being read."""
    from service.artefacts import stored  # noqa: PLC0415

    removed = stored(context.obj)["rater"].gc(name, keep)
    if as_json:
        print_json({"rater": name, "removed": removed})
    else:
        listed = f": {', '.join(removed)}" if removed else ""
        print_line(f"rater {name}: {counted(len(removed), 'version')} removed{listed}")
