"""What `refaug meta` found as one HTML page, with everything in it: tables, plots, and how it was made."""

from __future__ import annotations

import platform
from collections.abc import Sequence
from importlib.metadata import version

from core.version import VERSION
from service.meta_records import MetaResult, SetResult
from service.meta_tables import (
    agreement_table,
    annotator_tables,
    bad_item_tables,
    difference_tables,
    gold_tables,
    group_tables,
    rows_table,
    system_tables,
)
from service.meta_text import ROWS_IN_WORDS, all_signatures, draws_in_words, per_cent
from service.pages import Table, escaped, html_figure, html_plots, html_table, warnings_box, whole_page
from service.plotting import Plot


def page(result: MetaResult, plots: Sequence[Sequence[Plot]]) -> str:
    """The whole page; the plots are those of each set, and after them those of the mean."""
    sections = [_set_section(number, found, result, plots[number]) for number, found in enumerate(result.sets)]
    contents = [(f"set-{number}", found.name) for number, found in enumerate(result.sets)]
    if result.mean is not None:
        sections.insert(0, _mean_section(result, plots[-1]))
        contents.insert(0, ("mean", "mean over sets"))
    contents.append(("how", "how it was made"))
    links = "".join(f'<li><a href="#{anchor}">{escaped(name)}</a></li>' for anchor, name in contents)
    body = [
        f"<p>{escaped(_summary(result))}</p>",
        warnings_box(result.warnings),
        f"<nav><ul>{links}</ul></nav>",
        *sections,
        _how(result),
    ]
    return whole_page("Agreement of metrics with people", body)


def _summary(result: MetaResult) -> str:
    settings = result.settings
    rows = sum(found.counts.used for found in result.sets)
    metrics, sets = len(result.metrics), len(result.sets)
    return (
        f"{metrics} metric{'s' * (metrics != 1)} on {rows:,} rated replies of {sets} test set{'s' * (sets != 1)}; "
        f"{ROWS_IN_WORDS[settings.rows]}. Correlations are with the mean rating of a reply, intervals of "
        f"{per_cent(settings)} from {draws_in_words(settings)}. "
        f"The baseline is {result.baseline}."
    )


def _mean_section(result: MetaResult, plots: Sequence[Plot]) -> str:
    mean = result.mean
    assert mean is not None
    tables = [agreement_table(mean.rows, result), *difference_tables(mean.rows, result)]
    intro = f"Of {', '.join(mean.sets)}; each set counts the same. Kendall and partial Spearman have no interval here."
    content = [f"<p>{escaped(intro)}</p>", *map(html_figure, plots), *map(html_table, tables)]
    return "\n".join(['<section id="mean">', "<h2>Mean over sets</h2>", *content, "</section>"])


def _set_section(number: int, found: SetResult, result: MetaResult, plots: Sequence[Plot]) -> str:
    bars, *others = plots
    tables = [agreement_table(found.rows, result), *difference_tables(found.rows, result), rows_table(found)]
    tables += gold_tables(found)
    further = [*annotator_tables(found, result), *system_tables(found)]
    further += [*group_tables(found, result), *bad_item_tables(found)]
    content = [html_figure(bars), *map(html_table, tables)]
    if others:  # a scatter and the systems' boxes by turns; beside plots of the same kind they fill a page better
        content += ["<h3>Scores and ratings</h3>", html_plots(others[::2])]
        content += ["<h3>Scores by system</h3>", html_plots(others[1::2])]
    content += map(html_table, further)
    return "\n".join([f'<section id="set-{number}">', f"<h2>{escaped(found.name)}</h2>", *content, "</section>"])


def _how(result: MetaResult) -> str:
    """All that somebody needs who wants the same figures."""
    settings = result.settings
    least = (
        "none left out" if settings.min_kappa is None else f"those below a mean κ of {settings.min_kappa:g} left out"
    )
    facts = [
        ("rows", f"{settings.rows.value}: {ROWS_IN_WORDS[settings.rows]}"),
        ("baseline", result.baseline),
        ("draws", f"{settings.draws:,}"),
        ("seed", str(settings.seed)),
        ("confidence", f"{settings.confidence:g}"),
        ("annotators", least),
        *((f"data of {found.name}", found.data) for found in result.sets),
        ("refaug", VERSION),
        ("Python", platform.python_version()),
        *((name, version(name)) for name in ("numpy", "scipy", "matplotlib")),
    ]
    signatures = [(name, one.short, one.full) for name, one in all_signatures(result)]
    tables = [
        Table(title="Settings and versions", columns=("what", "value"), rows=facts, text=True),
        Table(title="Signatures", columns=("metric", "short", "full"), rows=signatures, text=True),
    ]
    return "\n".join(['<section id="how">', "<h2>How it was made</h2>", *map(html_table, tables), "</section>"])
