"""`refaug rater report`: a page with plots on a rater, and with references that it has rated."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from refaug.cli.shared import output
from refaug.cli.shared.index_options import ThreadsOption
from refaug.cli.shared.progress import display_progress
from refaug.cli.shared.reference_options import IndexOption, open_index_and_rater
from refaug.cli.shared.score_options import StrictFlag, report_problems, require_all
from refaug.core.errors import Usage
from refaug.core.files import read_json
from refaug.core.home import Settings
from refaug.core.progress import Progress

if TYPE_CHECKING:
    from collections.abc import Iterable

    from refaug.core.records import Item
    from refaug.evaluation.rater_report.report import RaterReport
    from refaug.evaluation.scoring.items import BadItem


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

    For test pairs, references of the index are found and rated as `refaug refs` does it. The page has their
    distribution, and up to fifty test pairs with all their references to be read.
    """
    from refaug.core.artefacts.kinds import artefact_stores  # noqa: PLC0415
    from refaug.core.artefacts.manifests import MANIFEST, verify_files  # noqa: PLC0415
    from refaug.evaluation.agreement.report.report import require_folder  # noqa: PLC0415
    from refaug.evaluation.rater_report.page import write_report  # noqa: PLC0415  matplotlib
    from refaug.evaluation.rater_report.report import RaterDescription, RaterReport, report_on_rater  # noqa: PLC0415
    from refaug.evaluation.scoring.augment_settings import AugmentSettings  # noqa: PLC0415
    from refaug.rater.network_folder import REPORT  # noqa: PLC0415  torch
    from refaug.rater.stored_raters import read_rater_manifest  # noqa: PLC0415

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
        about = RaterDescription.of(f"{spec}#{manifest.id[:12]}", manifest, read_json(open_version.folder / REPORT))
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
    from refaug.evaluation.scoring.items import read_items  # noqa: PLC0415
    from refaug.rater.training.held_out_pairs import held_out  # noqa: PLC0415  torch

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
