"""`refaug train rater …`: training raters on logs, reports on them, rating by hand."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from refaug.cli.scores.meta import named_sets, read_set
from refaug.cli.shared import network_commands, output
from refaug.cli.shared.field_options import with_options
from refaug.cli.shared.index_options import ThreadsOption, connected
from refaug.cli.shared.item_inputs import ItemInputs
from refaug.cli.shared.network_commands import run_training
from refaug.cli.shared.output import JsonFlag, MemoryOption, count_of, parse_size, print_json, print_line, print_table
from refaug.cli.shared.progress import display_progress
from refaug.cli.shared.reference_options import IndexOption, open_index_and_rater
from refaug.cli.shared.score_options import SeedOption, StrictFlag, report_problems, require_all
from refaug.core.errors import Usage
from refaug.core.files import read_json, require_folder
from refaug.core.home import Settings
from refaug.core.progress import Progress
from refaug.operations.training import TrainRater
from refaug.scoring.settings import MAX_CONFIDENCE, MAX_DRAWS, MIN_CONFIDENCE

if TYPE_CHECKING:
    from refaug.agreement.rater_agreement import RaterEvaluation, ReferenceRow
    from refaug.agreement.rater_report.report import RaterReport
    from refaug.agreement.records import AgreementRow, MeanRow
    from refaug.core.records import Item
    from refaug.metrics.statistics.resampling import Estimate
    from refaug.rater.nn.build import HardNegatives
    from refaug.scoring.items import BadItem

# ── `refaug agreement rater`: agreement of a rater's ratings with people's ────────────────────────────────────────────

_SPEARMAN = "spearman"


def evaluate_command(
    context: typer.Context,
    rater: Annotated[str, typer.Argument(help="Name of the rater, or name@version.", metavar="RATER")],
    items: Annotated[
        list[Path], typer.Argument(help="Test sets: JSONL with one item a line; - for stdin.", metavar="ITEMS…")
    ],
    combine: Annotated[
        list[str] | None,
        typer.Option(
            help="first, first-literal, max, confident or mean: see the page on raters; repeat it. Without it, all of "
            "them. The others are compared with the first.",
            metavar="NAME",
        ),
    ] = None,
    calibrated: Annotated[bool, typer.Option("--calibrated", help="Rate with the rater's temperature.")] = False,
    draws: Annotated[int, typer.Option(help="Draws of the bootstrap over items.", min=1, max=MAX_DRAWS)] = 10_000,
    confidence: Annotated[float, typer.Option(help="Of the intervals.", min=MIN_CONFIDENCE, max=MAX_CONFIDENCE)] = 0.95,
    seed: SeedOption = 1,
    threads: ThreadsOption = None,
    strict: StrictFlag = False,
    as_json: JsonFlag = False,
) -> None:
    """Say how far a rater's ratings agree with people's, of replies and of references that people rated.

    Replies need "ratings", references a weight or "ratings" by people; both are rated beside the golds of their item.
    """
    files = named_sets(items, remedy="refaug agreement rater RATER ITEMS.jsonl")
    from refaug.agreement.rater_agreement import RaterEvaluationSettings, evaluate_rater  # noqa: PLC0415  torch
    from refaug.agreement.records import RatedItems  # noqa: PLC0415  compiles
    from refaug.scoring.home.networks import open_rater  # noqa: PLC0415

    chosen = {"combines": tuple(combine)} if combine else {}
    settings = RaterEvaluationSettings(
        **chosen, calibration="cal" if calibrated else "raw", draws=draws, confidence=confidence, seed=seed
    )
    network = open_rater(context.obj, rater, threads=threads)
    with display_progress(quiet=context.obj.quiet) as progress:
        sets = [RatedItems(name=name, items=read_set(ItemInputs(items=path), progress)) for name, path in files.items()]
        evaluation = evaluate_rater(network, sets, settings, progress)
        report_problems(evaluation.bad_items, evaluation.warnings, progress)
    if as_json:
        print_json(evaluation.as_json())
    else:
        _print_tables(evaluation)
    require_all(evaluation.bad_items, strict=strict)


# ── Tables ────────────────────────────────────────────────────────────────────────────────────────────────────────────


def _print_tables(evaluation: RaterEvaluation) -> None:
    from refaug.agreement.report.wording import draws_in_words  # noqa: PLC0415  compiles

    if evaluation.replies is not None:
        for set_result in evaluation.replies.sets:
            counts = set_result.counts
            what = f"{count_of(counts.used, 'fair row')} of {count_of(counts.contexts, 'item')}, data {set_result.data}"
            _print_replies(f"{set_result.name}, rated replies: {what}", set_result.rows, evaluation)
        if evaluation.replies.mean is not None:
            _print_replies("mean of the sets, rated replies", evaluation.replies.mean.rows, evaluation)
    for references in evaluation.references:
        what = f"{references.used:,} of {count_of(references.items, 'item')}, data {references.data}"
        same = f"; {references.golds_themselves:,} more are a gold" if references.golds_themselves else ""
        _print_references(f"{references.name}, rated references: {what}{same}", references.rows, evaluation)
    if evaluation.mean:
        _print_references("mean of the sets, rated references", evaluation.mean, evaluation)
    print_line(f"intervals: bootstrap, {draws_in_words(evaluation.settings.meta)}")
    print_line(f"rater {evaluation.rater}, cal {evaluation.settings.calibration}")


def _print_replies(title: str, rows: Sequence[AgreementRow | MeanRow], evaluation: RaterEvaluation) -> None:
    interval, labels = (
        _interval(evaluation),
        dict(zip(evaluation.settings.metrics, evaluation.settings.combines, strict=True)),
    )
    print_table(
        title,
        (
            "combine",
            "Spearman",
            interval,
            f"less {evaluation.settings.combines[0]}",
            interval,
            "Holm p",
            "Pearson",
            "partial Spearman",
            "n",
        ),
        [
            (
                labels.get(row.name, row.name),
                *_with_span(row.spearman),
                *_with_span(row.differences.get(_SPEARMAN)),
                _p_value(row.holm.get(_SPEARMAN)),
                _correlation(row.pearson.value),
                _correlation(row.partial_spearman.value),
                row.n,
            )
            for row in rows
        ],
    )
    _print_reasons((labels.get(row.name, row.name), row.spearman) for row in rows)


def _print_references(title: str, rows: Sequence[ReferenceRow], evaluation: RaterEvaluation) -> None:
    interval = _interval(evaluation)
    print_table(
        title,
        ("combine", "Spearman", interval, f"less {evaluation.settings.combines[0]}", interval, "Pearson", interval),
        [
            (row.name, *_with_span(row.spearman), *_with_span(row.differences.get(_SPEARMAN)), *_with_span(row.pearson))
            for row in rows
        ],
    )
    _print_reasons((row.name, row.spearman) for row in rows)


def _print_reasons(figures: Iterable[tuple[str, Estimate]]) -> None:
    for line in dict.fromkeys(_reasons(figures)):
        print_line(f"  {line}")
    print_line()


def _reasons(figures: Iterable[tuple[str, Estimate]]) -> Iterator[str]:
    """Yield the reason for each dash."""
    for name, estimate in figures:
        if estimate.why is not None:
            yield f"{name}: {estimate.why}"


def _interval(evaluation: RaterEvaluation) -> str:
    from refaug.agreement.report.wording import per_cent  # noqa: PLC0415  compiles

    return per_cent(evaluation.settings.meta)


def _with_span(estimate: Estimate | None) -> tuple[str, str]:
    if estimate is None:
        return "-", "-"
    return (
        _correlation(estimate.value),
        "-"
        if estimate.low is None or estimate.high is None
        else f"[{_correlation(estimate.low)}, {_correlation(estimate.high)}]",
    )


def _correlation(coefficient: float | None) -> str:
    """Format a correlation for people; a value that rounds to 0 has no sign."""
    return "-" if coefficient is None else f"{round(coefficient, 3) + 0.0:.3f}"


def _p_value(p: float | None) -> str:
    return "-" if p is None else f"{p:.0e}" if p < 0.0001 else f"{p:.4f}"


# ── `refaug train rater …`: training raters on logs, reports on them, rating by hand ──────────────────────────────────


def report_command(
    context: typer.Context,
    rater: Annotated[
        str, typer.Argument(help="Name of the rater, or name@version for one that is not published.", metavar="RATER")
    ],
    to: Annotated[Path, typer.Option(help="Folder for the page, the pictures and the figures.", metavar="FOLDER")],
    index: IndexOption = None,
    items: Annotated[
        Path | None,
        typer.Option(
            help="A test file with the test pairs, - for stdin; by default fifty that the rater did not learn from.",
            metavar="FILE",
        ),
    ] = None,
    k: Annotated[int, typer.Option("-k", help="References to find for each item.", min=1, max=1_000)] = 15,
    threads: ThreadsOption = None,
    memory: output.MemoryOption = "2GiB",
    strict: StrictFlag = False,
    as_json: output.JsonFlag = False,
) -> None:
    """Write a page on how a rater was trained and how good it is; with --index also on how it rates references.

    For test pairs, references of the index are found and rated as `refaug sets references` does it. The page has their
    distribution, and up to fifty test pairs with all their references to be read.
    """
    from refaug.agreement.rater_report.page import write_report  # noqa: PLC0415  matplotlib
    from refaug.agreement.rater_report.report import RaterDescription, RaterReport, report_on_rater  # noqa: PLC0415
    from refaug.agreement.rater_report.seeds import with_other_seeds  # noqa: PLC0415
    from refaug.core.artefacts.kinds import artefact_stores  # noqa: PLC0415
    from refaug.core.artefacts.manifests import MANIFEST, verify_files  # noqa: PLC0415
    from refaug.rater.network_folder import REPORT  # noqa: PLC0415  torch
    from refaug.rater.stored_raters import read_rater_manifest  # noqa: PLC0415
    from refaug.scoring.settings import AugmentSettings  # noqa: PLC0415

    if index is None and items is not None:
        raise Usage(
            "test pairs need an index to find references in", remedy="--index NAME: refaug artefacts list index"
        )
    require_folder(to)
    with (
        display_progress(quiet=context.obj.quiet) as progress,
        artefact_stores(context.obj)["rater"].open(rater) as open_version,
    ):
        manifest = read_rater_manifest(open_version.folder)
        verify_files(open_version.folder, read_json(open_version.folder / MANIFEST))
        spec = f"{open_version.name}@{open_version.version}"
        training = with_other_seeds(
            read_json(open_version.folder / REPORT),
            artefact_stores(context.obj)["rater"],
            open_version.name,
            open_version.version,
        )
        about = RaterDescription.of(f"{spec}#{manifest.id[:12]}", manifest, training)
        if index is None:
            report = RaterReport(about=about)
        else:
            settings = AugmentSettings(k=k, parrot="rated")  # a page shows how it is rated
            with (
                open_index_and_rater(context.obj, index, spec, settings, threads) as (reference_index, weigher),
                _pairs(context.obj, items, manifest.details, progress, threads, output.parse_size(memory)) as pairs,
            ):
                assert weigher is not None
                report = report_on_rater(
                    about,
                    weigher,
                    reference_index,
                    pairs,
                    settings,
                    progress,
                    pairs_from=_source_name(items),
                    of_the_index=items is None,
                )
        bad = report.retrieved.bad_items if report.retrieved is not None else ()
        report_problems(bad, (), progress)
        progress.stage("report")
        page, *_ = write_report(report, to)
    if as_json:
        output.print_json(report.as_json())
    else:
        output.print_facts(f"rater {spec}", {"page": str(page), **_facts(report)})
    require_all(bad, strict=strict)


@contextmanager
def _pairs(
    settings: Settings,
    items: Path | None,
    details: Mapping[str, Any],
    progress: Progress,
    threads: int | None,
    memory: int,
) -> Iterator[Iterable[Item | BadItem]]:
    """Yield the test pairs that were named, or those that the rater did not learn from."""
    from refaug.rater.training.corpus import held_out  # noqa: PLC0415  torch
    from refaug.scoring.items import read_items  # noqa: PLC0415

    if items is None:
        yield held_out(settings.logs, settings.cache, details, progress, memory=memory, threads=threads)
        return
    with output.file_or_stdin(items) as path:
        yield read_items(path, shown_name=_source_name(items), on_unknown_field=progress.warn)


def _source_name(items: Path | None) -> str:
    """Say in words where test pairs come from."""
    if items is None:
        return "utterances of the rater's logs that it did not learn from"
    return "stdin" if str(items) == "-" else str(items)


def _facts(report: RaterReport) -> dict[str, object]:
    """Return the main facts of a report."""
    training = report.about.training
    facts: dict[str, object] = {"auc_good_vs_wrong": f"{training['auc_good_vs_wrong']:.4f}"}
    if report.retrieved is None:
        return facts
    figures = report.retrieved.figures
    shares = {"above_0": figures.above_0, "alike": figures.alike, "spearman_with_similarity": figures.spearman}
    return {
        **facts,
        "test_pairs": figures.pairs,
        "with_references": figures.rated_pairs,
        "references": figures.references,
        "mean_rating": None if figures.mean is None else f"{figures.mean:+.3f}",
        **{name: None if figure is None else f"{figure:.3f}" for name, figure in shares.items()},
    }


def negatives_command(
    context: typer.Context,
    logs: Annotated[list[str], typer.Argument(help="Logs that a rater would learn from.", metavar="LOG…")],
    count: Annotated[int, typer.Option("-n", "--count", help="How many.", min=1, max=100_000)] = 100,
    preset: Annotated[str, typer.Option(help="Sizes that go together: paper, base or small.")] = "base",
    min_words: Annotated[
        int | None, typer.Option(help="Shortest utterance; by default what suits the language.", min=1)
    ] = None,
    seed: Annotated[int, typer.Option(help="Another seed, others.", min=0, max=2**32 - 1)] = 1,
    threads: ThreadsOption = None,
    memory: MemoryOption = "2GiB",
    as_json: JsonFlag = False,
) -> None:
    """Some of the hard negatives that `refaug train rater --negatives hard` would draw from; nothing is trained.

    Each is shown with the response that it shares rare words with, and the utterances that the two were said to. A hard
    negative that would do as a response to the first utterance as well is learnt as a wrong one: read how many there
    are.
    """
    from refaug.logs.pairs import SharedSettings  # noqa: PLC0415
    from refaug.rater.nn.build import (  # noqa: PLC0415  torch
        PRESETS,
        RaterOrder,
        hard_negatives,
    )
    from refaug.rater.nn.sizes import RaterConfig  # noqa: PLC0415
    from refaug.rater.training.examples import ExampleSettings  # noqa: PLC0415
    from refaug.rater.training.loop import TrainConfig  # noqa: PLC0415
    from refaug.scoring.home.indexes import cores  # noqa: PLC0415
    from refaug.scoring.home.torch_networks import learn_piece_vectors  # noqa: PLC0415

    if preset not in PRESETS:
        raise Usage(f"there is no preset {preset!r}", remedy=f"one of: {', '.join(PRESETS)}")
    sizes = PRESETS[preset]
    order = RaterOrder(
        name=logs[0],
        logs=tuple(logs),
        model=RaterConfig(embedding=sizes.embedding, max_tokens=128),
        examples=ExampleSettings(seed=seed, negatives="hard"),
        training=TrainConfig(seed=seed, threads=threads or cores()),
        shared=None if min_words is None else SharedSettings(min_words=min_words, seed=seed),
        pieces=sizes.pieces,
        start="vectors",
        memory=parse_size(memory),
    )
    with display_progress(quiet=context.obj.quiet) as progress:
        negatives = hard_negatives(
            context.obj.logs, context.obj.cache, order, learn_piece_vectors, progress, count=count
        )
    if as_json:
        print_json(
            {
                "negatives": list(map(asdict, negatives.negatives)),
                "without_partner": negatives.without_partner,
            }
        )
    else:
        _print(negatives)


def _print(negatives: HardNegatives) -> None:
    for negative in negatives.negatives:
        for line in (
            negative.utterance,
            f"  → {negative.response}",
            f"  ≠ {negative.hard}",
            f"    said to: {negative.answered}",
        ):
            print_line(line)
    print_line(f"{100 * negatives.without_partner:.1f} % of the responses have no hard negative")


NameArgument = Annotated[str, typer.Argument(help="Name of the rater.", metavar="RATER")]
SpecArgument = Annotated[
    str, typer.Argument(help="Name of the rater, or name@version for one that is not published.", metavar="RATER")
]
OnOption = Annotated[
    str | None,
    typer.Option(
        "--on",
        help="Train on a cluster of Ray: HOST:PORT, auto on one of its machines, or local.",
        metavar="ADDRESS",
    ),
]
_KIND: Final = "rater"


@with_options
def train_command(context: typer.Context, *, options: TrainRater, as_json: JsonFlag = False) -> None:
    """Train a rater on logs; stopped, the same command goes on where it was."""
    from refaug.rater.trainings import train_any_rater  # noqa: PLC0415  torch
    from refaug.scoring.home.indexes import cores  # noqa: PLC0415  compiles
    from refaug.scoring.home.networks import rater_places  # noqa: PLC0415
    from refaug.scoring.home.torch_networks import learn_piece_vectors  # noqa: PLC0415

    places, order = rater_places(context.obj), options.order(threads=options.threads or cores())
    with connected(options.on) as cluster:
        shared: dict[str, Any] = {"learn_vectors": learn_piece_vectors, "illustrate": _illustrate, "cluster": cluster}
        train = partial(train_any_rater, places, order, again=options.again, **shared)
        run_training(context.obj, _KIND, train, as_json=as_json)


def resume_command(context: typer.Context, name: NameArgument, on: OnOption = None, as_json: JsonFlag = False) -> None:
    """Go on with a training that was stopped, with the settings that it was started with.

    It may go on on a cluster, with the number of workers that it was started with, or without one.
    """
    from refaug.rater.trainings import resume_any_rater  # noqa: PLC0415  torch
    from refaug.scoring.home.networks import rater_places  # noqa: PLC0415
    from refaug.scoring.home.torch_networks import learn_piece_vectors  # noqa: PLC0415

    places = rater_places(context.obj)
    with connected(on) as cluster:
        shared: dict[str, Any] = {"learn_vectors": learn_piece_vectors, "illustrate": _illustrate, "cluster": cluster}
        run_training(context.obj, _KIND, partial(resume_any_rater, places, name, **shared), as_json=as_json)


def _illustrate(report: Mapping[str, Any]) -> Mapping[str, bytes]:
    from refaug.agreement.rater_report.page import training_images  # noqa: PLC0415  matplotlib

    return training_images(report)


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
    from refaug.core.records import Reference  # noqa: PLC0415
    from refaug.rater.rating import RatingRequest  # noqa: PLC0415  torch
    from refaug.rater.rating_settings import RatingSettings  # noqa: PLC0415  torch
    from refaug.scoring.home.networks import open_rater  # noqa: PLC0415

    settings = RatingSettings(combine=combine, calibrated=calibrated)  # type: ignore[arg-type]
    network = open_rater(context.obj, rater)
    request = RatingRequest(
        utterance=utterance,
        golds=(gold,),
        candidates=tuple(Reference(text=text, utterance=to) for text in candidates),
    )
    ratings = network.rate([request], settings)[0]
    network_commands.warn_about(network.unfamiliar(network.coverage([utterance, gold, *candidates])), context.obj)
    if as_json:
        print_json({"rater": network.spec, "combine": combine, "ratings": ratings})
        return
    rows = [(f"{rating:+.4f}", text) for rating, text in zip(ratings, candidates, strict=True)]
    network_commands.print_texts(network.spec, "rating", rows)
