"""`refaug rater report`: a rater as pictures and a page, with references that it has rated, to be read."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from core.errors import Usage
from core.files import read_json
from core.progress import Progress
from service.cli.common import (
    JsonFlag,
    MemoryOption,
    file_or_stdin,
    parse_size,
    print_facts,
    print_json,
)
from service.cli.index_common import ThreadsOption
from service.cli.progress import shown_progress
from service.cli.references import CountOption, IndexOption, opened
from service.cli.scoring import StrictFlag, report_problems, require_all
from service.settings import Settings

if TYPE_CHECKING:
    from collections.abc import Iterable

    from core.items import BadItem
    from core.records import Item
    from service.rater_report import RaterReport


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
    k: CountOption = 15,
    threads: ThreadsOption = None,
    memory: MemoryOption = "2GiB",
    strict: StrictFlag = False,
    as_json: JsonFlag = False,
) -> None:
    """Write a page on how a rater was trained and how good it is; with --index also on how it rates references.

    For test pairs, references of the index are found and rated as `refaug refs` does it. The page has their
    distribution, and up to fifty test pairs with all their references to be read.
    """
    from core.artefacts import MANIFEST, verify_files  # noqa: PLC0415
    from indexer.queries import SearchSettings  # noqa: PLC0415  compiles
    from rater.checkpoint import REPORT, read_manifest  # noqa: PLC0415  torch
    from service.artefacts import stored  # noqa: PLC0415
    from service.augment import AugmentSettings  # noqa: PLC0415
    from service.meta_report import require_folder  # noqa: PLC0415
    from service.rater_page import write_report  # noqa: PLC0415  matplotlib
    from service.rater_report import AboutRater, RaterReport, made_report  # noqa: PLC0415

    if index is None and items is not None:
        raise Usage("test pairs need an index to find references in", remedy="--index NAME: refaug index list")
    require_folder(to)
    with (
        shown_progress(quiet=context.obj.quiet) as progress,
        stored(context.obj)["rater"].open(rater) as held,
    ):
        manifest = read_manifest(held.folder)
        verify_files(held.folder, read_json(held.folder / MANIFEST))
        spec = f"{held.name}@{held.version}"
        about = AboutRater.of(f"{spec}#{manifest.id[:12]}", manifest, read_json(held.folder / REPORT))
        if index is None:
            found = RaterReport(about=about)
        else:
            asked = AugmentSettings(search=SearchSettings(k=k))
            with (
                opened(context.obj, index, spec, asked, threads) as (there, weigher),
                _pairs(context.obj, items, manifest.details, progress, threads, parse_size(memory)) as pairs,
            ):
                assert weigher is not None
                found = made_report(
                    about,
                    weigher,
                    there,
                    pairs,
                    asked,
                    progress,
                    pairs_from=_called(items),
                    of_the_index=items is None,
                )
        bad = found.retrieved.bad_items if found.retrieved is not None else ()
        report_problems(bad, (), progress)
        progress.stage("report")
        page, *_ = write_report(found, to)
    if as_json:
        print_json(found.as_json())
    else:
        print_facts(f"rater {spec}", {"page": str(page), **_facts(found)})
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
    """The test pairs that were named, or those that the rater did not learn from."""
    from core.items import read_items  # noqa: PLC0415
    from rater.held_out import held_out  # noqa: PLC0415  torch

    if items is None:
        yield held_out(settings.logs, settings.cache, details, progress, memory=memory, threads=threads)
        return
    with file_or_stdin(items) as path:
        yield read_items(path, called=_called(items))


def _called(items: Path | None) -> str:
    """Where test pairs come from, in words."""
    if items is None:
        return "utterances of the rater's logs that it did not learn from"
    return "stdin" if str(items) == "-" else str(items)


def _facts(found: RaterReport) -> dict[str, Any]:
    """What is worth reading at once."""
    training = found.about.training
    facts: dict[str, Any] = {"auc_good_vs_wrong": f"{training['auc_good_vs_wrong']:.4f}"}
    if found.retrieved is None:
        return facts
    figures = found.retrieved.figures
    shares = {"above_0": figures.above_0, "alike": figures.alike, "spearman_with_similarity": figures.spearman}
    return {
        **facts,
        "test_pairs": figures.pairs,
        "with_references": figures.rated_pairs,
        "references": figures.references,
        "mean_rating": None if figures.mean is None else f"{figures.mean:+.3f}",
        **{name: None if value is None else f"{value:.3f}" for name, value in shares.items()},
    }
