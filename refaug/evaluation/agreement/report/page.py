"""Write the result of `refaug meta` as one HTML page that contains the tables, the plots and the settings."""

from __future__ import annotations

import platform
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.metadata import version

from refaug.core.version import VERSION
from refaug.evaluation.agreement.records import MetaResult, SetResult
from refaug.evaluation.agreement.report.plots import SectionPlots
from refaug.evaluation.agreement.report.tables import (
    agreement_table,
    annotator_tables,
    bad_item_tables,
    difference_tables,
    gold_tables,
    group_tables,
    rows_table,
    system_tables,
)
from refaug.evaluation.agreement.report.wording import ROWS_IN_WORDS, all_signatures, draws_in_words, per_cent
from refaug.evaluation.reports.html_page import Table, render_page
from refaug.evaluation.reports.plotting import Plot


@dataclass(frozen=True, kw_only=True)
class _PageSection:
    """The section of a set or of the mean; plots of the same kind fill a page better."""

    anchor: str
    title: str
    intro: Sequence[str] = ()
    plots: Sequence[Plot]
    tables: Sequence[Table]
    scatter_plots: Sequence[Plot] = ()
    box_plots: Sequence[Plot] = ()
    system_plots: Sequence[Plot] = ()
    further_tables: Sequence[Table] = ()


def page(meta_result: MetaResult, plots: Sequence[SectionPlots]) -> str:
    """Return the page; the plots are those of each set, and after them those of the mean."""
    sections = [
        _set_section(number, set_result, meta_result, plots[number])
        for number, set_result in enumerate(meta_result.sets)
    ]
    contents = [(section.anchor, section.title) for section in sections]
    if meta_result.mean is not None:
        sections.insert(0, _mean_section(meta_result, plots[-1]))
        contents.insert(0, ("mean", "mean over sets"))
    return render_page(
        "agreement/report/page.html.j2",
        title="Agreement of metrics with people",
        summary=_summary(meta_result),
        warnings=meta_result.warnings,
        contents=[*contents, ("how", "how it was made")],
        sections=sections,
        settings_tables=_settings_tables(meta_result),
    )


def _summary(meta_result: MetaResult) -> str:
    settings = meta_result.settings
    rows = sum(set_result.counts.used for set_result in meta_result.sets)
    metrics, sets = len(meta_result.metrics), len(meta_result.sets)
    return (
        f"{metrics} metric{'s' * (metrics != 1)} on {rows:,} rated replies of {sets} test set{'s' * (sets != 1)}; "
        f"{ROWS_IN_WORDS[settings.rows]}. Correlations are with the mean rating of a reply, intervals of "
        f"{per_cent(settings)} from {draws_in_words(settings)}. "
        f"The baseline is {meta_result.baseline}."
    )


def _mean_section(meta_result: MetaResult, plots: SectionPlots) -> _PageSection:
    mean = meta_result.mean
    assert mean is not None
    intro = f"Of {', '.join(mean.sets)}; each set counts the same. Kendall and partial Spearman have no interval here."
    return _PageSection(
        anchor="mean",
        title="Mean over sets",
        intro=[intro],
        plots=[plots.bars],
        tables=[agreement_table(mean.rows, meta_result), *difference_tables(mean.rows, meta_result)],
    )


def _set_section(number: int, set_result: SetResult, meta_result: MetaResult, plots: SectionPlots) -> _PageSection:
    tables = [agreement_table(set_result.rows, meta_result), *difference_tables(set_result.rows, meta_result)]
    tables += [rows_table(set_result), *gold_tables(set_result)]
    further = [*annotator_tables(set_result, meta_result), *system_tables(set_result)]
    further += [*group_tables(set_result, meta_result), *bad_item_tables(set_result)]
    return _PageSection(
        anchor=f"set-{number}",
        title=set_result.name,
        plots=[plots.bars],
        tables=tables,
        scatter_plots=plots.scatter,
        box_plots=plots.boxes,
        system_plots=plots.system_level,
        further_tables=further,
    )


def _settings_tables(meta_result: MetaResult) -> list[Table]:
    """List everything that is needed to reproduce the figures."""
    settings = meta_result.settings
    least = (
        "none left out" if settings.min_kappa is None else f"those below a mean κ of {settings.min_kappa:g} left out"
    )
    facts = [
        ("rows", f"{settings.rows.value}: {ROWS_IN_WORDS[settings.rows]}"),
        ("baseline", meta_result.baseline),
        ("draws", f"{settings.draws:,}"),
        ("seed", str(settings.seed)),
        ("confidence", f"{settings.confidence:g}"),
        ("annotators", least),
        *((f"data of {set_result.name}", set_result.data) for set_result in meta_result.sets),
        ("refaug", VERSION),
        ("Python", platform.python_version()),
        *((name, version(name)) for name in ("numpy", "scipy", "matplotlib")),
    ]
    signatures = [(name, signature.short, signature.full) for name, signature in all_signatures(meta_result)]
    return [
        Table(title="Settings and versions", columns=("what", "value"), rows=facts, text=True),
        Table(title="Signatures", columns=("metric", "short", "full"), rows=signatures, text=True),
    ]
