"""The report of a study as a page, as Markdown, and as JSON in a folder; all of it from the JSON, which has no time."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import orjson

from refaug.core.errors import BadInput
from refaug.core.files import make_folder
from refaug.core.text.normalisation import make_printable
from refaug.extras.studies.exclusions import BY_HAND
from refaug.extras.studies.report.numbers import FORMAT
from refaug.tables.reports.html_page import report_page, write_file
from refaug.tables.reports.report import Report, Section
from refaug.tables.reports.table import Table

# ── The tables of a study report with their sentences, from its JSON alone; page and Markdown show the same ───────────

ANALYSES: Final = {
    "kept": "Without the participants who are left out",
    "all": "With all participants",
    "unnamed": "Without replies that name their bot",
    "decided": "With what was decided where participants disagreed",
}
_FITS: Final = {
    "half": "Bradley–Terry, a tie as half a win for each",
    "davidson": "Bradley–Terry, ties as an outcome of their own (Davidson)",
    "length": "Bradley–Terry at equal length of replies",
}
REASONS: Final = "Who is left out, and why"
_MOST_PARTICIPANTS: Final = 500  # in a table of reasons

Json = Mapping[str, Any]


def study_sections(report: Json) -> list[Section]:
    """Return all sections in order."""
    sections = [_people(report)]
    if report["metrics"] is not None:
        sections.append(_metrics(report["metrics"]))
    sections += [
        Section(
            anchor=name,
            title=ANALYSES[name],
            text=[f"{analysis['participants']:,} participants, {analysis['tasks']:,} tasks without checks."],
            tables=list(_analysis_tables(analysis)),
        )
        for name, analysis in report["analyses"].items()
    ]
    return [*sections, _settings(report)]


def study_summary(report: Json) -> str:
    """Return what the study is, in a sentence or two."""
    counts, left_out = report["counts"], report["exclusions"]
    done, by_hand = counts["tasks"]["done"], left_out["by_rule"].get(BY_HAND, 0)
    how = f", {by_hand:,} of them by hand" if by_hand else " by the rules of the protocol"
    rules = "" if left_out["has_protocol"] else " Without the protocol, no rule was applied and no question turned."
    return (
        f"Study {report['study']}, of kind {report['kind']}: {counts['participants']:,} participants, {done:,} "
        f"finished tasks, {left_out['excluded']:,} participants left out{how}.{rules}"
    )


def study_warnings(report: Json) -> list[str]:
    """Return what changes the meaning of the figures."""
    warnings = []
    if len(report["protocols"]) > 1:
        warnings.append(f"The protocol was amended: tasks were done under {len(report['protocols'])} versions of it.")
    if report["settings"]["with_pilot"]:
        warnings.append("Tasks of the pilot are counted.")
    if not report["settings"]["clustered"]:
        warnings.append("Single ratings are drawn, not participants: intervals are too narrow where people rate often.")
    for question, choices in report["analyses"]["kept"]["choices"].items():
        fit = choices["bradley_terry"]["half"]
        if not fit["is_connected"]:
            groups = "; ".join(", ".join(group) for group in fit["groups"])
            warnings.append(
                f"{question}: no chain of wins leads from every bot to every other ({groups}): strengths are fitted "
                f"with a ridge of {fit['ridge']:g}."
            )
    return warnings


# ── People ────────────────────────────────────────────────────────────────────────────────────────────────────────────


def _decisions(decisions: Json | None) -> list[tuple[str, str]]:
    """Return the rows about decisions; reports that were made before have none."""
    if decisions is None or not decisions["decisions"]:
        return []
    people = ", ".join(f"{name} {number:,}" for name, number in decisions["by"].items())
    return [
        ("decisions about disagreements", f"{decisions['decisions']:,} on {decisions['items']:,} items, by {people}"),
        ("answers that they change", f"{decisions['answers_that_differ']:,} of {decisions['answers']:,}"),
    ]


def _people(report: Json) -> Section:
    counts, left_out, checks = report["counts"], report["exclusions"], report["checks"]
    facts = [
        ("participants", f"{counts['participants']:,}"),
        *((f"tasks {state}", f"{number:,}") for state, number in counts["tasks"].items()),
        ("tasks of the pilot, not counted", f"{counts['pilot_left_out']:,}"),
        ("tasks in which a reply names its bot", f"{counts['names_bot']:,}"),
        *_decisions(report.get("decisions")),
        ("seconds a task, on average", _number(counts["seconds_a_task"])),
        ("attention checks passed", f"{checks['attention']['passed']:,} of {checks['attention']['asked']:,}"),
        *((f"mean of the degraded bot, {question}", _number(mean)) for question, mean in checks["degraded"].items()),
        ("mean difference of repeated answers", _number(checks["repeats"]["mean_difference"])),
        *((f"skipped: {reason or 'no reason'}", f"{number:,}") for reason, number in counts["skip_reasons"].items()),
    ]
    rules = [
        (rule, _shown(left_out["rules"].get(rule, "–")), f"{left_out['judged'][rule]:,}", f"{number:,}")
        for rule, number in left_out["by_rule"].items()
    ]
    reasons = [
        (participant, reason["rule"], reason["detail"])
        for participant, broken in left_out["reasons"].items()
        for reason in broken
    ]
    tables = [
        Table(title="Counts", columns=("what", "number"), rows=facts),
        Table(title="Rules of exclusion", columns=("rule", "setting", "participants judged", "left out"), rows=rules),
    ]
    if reasons:
        more = len(reasons) - _MOST_PARTICIPANTS
        tables.append(
            Table(
                title=REASONS,
                columns=("participant", "rule", "what was seen"),
                rows=reasons[:_MOST_PARTICIPANTS],
                notes=[f"{more:,} more reasons are in the JSON."] if more > 0 else [],
                text=True,
            )
        )
    bots = [(bot, f"{number:,}") for bot, number in counts["bots"].items()]
    tables.append(Table(title="Finished tasks by bot", columns=("bot", "tasks"), rows=bots))
    return Section(anchor="people", title="Participants and tasks", tables=tables)


# ── One analysis ──────────────────────────────────────────────────────────────────────────────────────────────────────


def _analysis_tables(analysis: Json) -> Iterator[Table]:
    for question, ratings in analysis["ratings"].items():
        yield from _rating_tables(question, ratings)
    for question, choices in analysis["choices"].items():
        yield from _choice_tables(question, choices)
    if analysis["agreement"]:
        yield _agreement_table(analysis["agreement"])
    if analysis["votes"]:
        yield Table(
            title="Votes on replies",
            columns=("bot", "replies", "up", "down", "share up", "interval (Wilson)"),
            rows=[
                (
                    bot,
                    f"{votes['replies']:,}",
                    f"{votes['up']:,}",
                    f"{votes['down']:,}",
                    _number(votes["share_up"]["value"]),
                    _range(votes["share_up"]["low"], votes["share_up"]["high"]),
                )
                for bot, votes in analysis["votes"].items()
            ],
        )


def _rating_tables(question: str, ratings: Json) -> Iterator[Table]:
    yield Table(
        title=f"{question}: means",
        columns=("bot", "n", "participants", "mean", "SD", "interval, participants drawn", "interval, t"),
        rows=[_mean_row(figure) for figure in ratings["means"]],
        notes=["The t interval takes single ratings for independent; it is there to be compared with published ones."],
    )
    if ratings["differences"]:
        yield Table(
            title=f"{question}: differences of bots",
            columns=("first", "second", "difference", "interval", "p", "p (Holm)"),
            rows=[
                (
                    entry["first"],
                    entry["second"],
                    f"{entry['difference']:+.3f}",
                    _range(entry["low"], entry["high"]),
                    _p(entry["p"]),
                    _p(entry["p_holm"]),
                )
                for entry in ratings["differences"]
            ],
        )
    if model := ratings.get("model"):  # reports that were made before have none
        yield _model_table(question, model)
    for least, z in ratings["z"].items():
        if z["means"]:
            yield Table(
                title=f"{question}: in deviations of the participant, of those with {least} ratings or more",
                columns=("bot", "n", "participants", "mean", "SD", "interval, participants drawn", "interval, t"),
                rows=[_mean_row(figure) for figure in z["means"]],
            )
    if ratings["factors"]:
        yield Table(
            title=f"{question}: factors, ratings exchanged within participants",
            columns=("factor", "levels, less the participant's mean", "ratings", "participants", "p"),
            rows=[
                (
                    test["factor"],
                    ", ".join(f"{level} {mean:+.3f}" for level, mean in test["levels"].items()),
                    f"{test['n']:,}",
                    f"{test['participants']:,}",
                    _p(test["p"]),
                )
                for test in ratings["factors"]
            ],
        )


def _model_table(question: str, model: Json) -> Table:
    """Return the table of a mixed model: means, differences, and whose levels the ratings vary by."""
    means = [(row["bot"], row["mean"], row) for row in model["means"]]
    gaps = [(f"{row['first']} − {row['second']}", row["difference"], row) for row in model["differences"]]
    shares = "; ".join(f"{row['of']} {row['variance']:.3f} ({row['share']:.0%})" for row in model["variances"])
    notes = [
        f"Variances: {shares}.",
        "Random intercepts by restricted maximum likelihood; Wald intervals and tests by t with Satterthwaite's "
        "degrees of freedom. The numbers of the scale count as equally spaced.",
    ]
    return Table(
        title=f"{question}: model",
        columns=("bots", "estimate", "SE", "df", "interval", "p", "p (Holm)"),
        rows=[
            (
                name,
                _number(estimate),
                _number(row["se"]),
                f"{row['df']:.1f}",
                _range(row["low"], row["high"]),
                _p(row.get("p")),
                _p(row.get("p_holm")),
            )
            for name, estimate, row in [*means, *gaps]
        ],
        notes=notes if model["why"] is None else [f"No model: {model['why']}."],
    )


def _mean_row(figure: Json) -> tuple[str, ...]:
    return (
        figure["bot"],
        f"{figure['n']:,}",
        f"{figure['participants']:,}",
        _number(figure["mean"]),
        _number(figure["sd"]),
        _range(figure["low"], figure["high"]),
        _range(figure["t_low"], figure["t_high"]),
    )


def _choice_tables(question: str, choices: Json) -> Iterator[Table]:
    yield Table(
        title=f"{question}: pairs",
        columns=("first", "second", "wins", "losses", "ties", "share without ties", "Wilson", "p", "p (Holm)",
                 "share, ties halved", "Wilson, halved", "p, halved", "p (Holm), halved"),
        rows=[_pair_row(pair) for pair in choices["pairs"]],
        notes=[
            f"The left side was chosen in {_number(choices['is_left']['value'])} of the choices "
            f"{_range(choices['is_left']['low'], choices['is_left']['high'])}.",
            "Sign tests take choices for independent; the intervals of strengths below are over participants.",
        ],
    )  # fmt: skip
    for name, fit in choices["bradley_terry"].items():
        if fit is not None:
            yield _strength_table(question, _FITS[name], fit)


def _pair_row(pair: Json) -> tuple[str, ...]:
    outcome = pair["outcome"]
    return (
        pair["first"],
        pair["second"],
        *(f"{outcome[name]:,}" for name in ("wins", "losses", "ties")),
        *(text for share, p in (("decided", "dropped"), ("halved", "halved")) for text in (
            _number(outcome[share]["value"]),
            _range(outcome[share]["low"], outcome[share]["high"]),
            _p(outcome[f"p_{p}"]),
            _p(pair[f"{p}_holm"]),
        )),
    )  # fmt: skip


def _strength_table(question: str, name: str, fit: Json) -> Table:
    notes = [
        f"{fit['votes']:,} choices of {fit['participants']:,} participants; {fit['draws']:,} draws of participants."
    ]
    if fit["ridged_draws"]:
        notes.append(
            f"{fit['ridged_draws']:,} draws have no chain of wins between all bots; these have a ridge of .01."
        )
    for label, term in (("Davidson's ν", fit["tie"]), ("the coefficient of length", fit["covariate"])):
        if term is not None:
            notes.append(f"{label}: {_number(term['value'])} {_range(term['low'], term['high'])}.")
    return Table(
        title=f"{question}: {name}",
        columns=("bot", "strength", "interval", "rank", "rank interval"),
        rows=[
            (
                bot["bot"],
                f"{bot['strength']:+.3f}",
                _range(bot["low"], bot["high"]),
                str(bot["rank"]),
                "–" if bot["rank_low"] is None else f"{bot['rank_low']} to {bot['rank_high']}",
            )
            for bot in fit["bots"]
        ],
        notes=notes,
    )


def _agreement_table(figures: Sequence[Json]) -> Table:
    return Table(
        title="How far participants agree",
        columns=(
            "question",
            "over",
            "rows",
            "participants",
            "α interval",
            "α ordinal",
            "mean κ",
            "median κ",
            "ambiguous",
        ),
        rows=[
            (
                figure["question"],
                figure["rows_are"],
                f"{figure['rows']:,}",
                f"{figure['participants']:,}",
                _alpha(figure["alpha_interval"]),
                _alpha(figure["alpha_ordinal"]),
                _number(figure["kappa_mean"]),
                _number(figure["kappa_median"]),
                _number(figure["ambiguous"]),
            )
            for figure in figures
        ],
        notes=[
            "κ has quadratic weights for numbers and none for choices; ambiguous are items on which as many chose "
            "the first as the second."
        ],
    )


def _alpha(alpha: Json | None) -> str:
    return "–" if alpha is None else _number(alpha["value"])


# ── Metrics and settings ──────────────────────────────────────────────────────────────────────────────────────────────


def _metrics(metrics: Json) -> Section:
    rows = [
        (
            f"{entry['metric']}, {entry['figure']}",
            entry["question"],
            str(entry["bots"]),
            *(_number(entry[kind]) for kind in ("pearson", "spearman", "within_bots")),
        )
        for entry in metrics["ratings"]
    ]
    choices = [
        (
            entry["metric"],
            entry["question"],
            f"{entry['agreed']:,} of {entry['choices']:,}",
            _number(entry["share"]["value"]),
            _range(entry["share"]["low"], entry["share"]["high"]),
        )
        for entry in metrics["choices"]
    ]
    tables = []
    if rows:
        tables.append(
            Table(
                title="Agreement with ratings",
                columns=("metric", "question", "bots", "Pearson over bots", "Spearman over bots", "within bots"),
                rows=rows,
                notes=sorted({entry["reason"] for entry in metrics["ratings"] if entry["reason"]}),
            )
        )
    if choices:
        tables.append(
            Table(
                title="Agreement with choices",
                columns=("metric", "question", "the chosen bot scores higher", "share", "Wilson"),
                rows=choices,
                notes=["Of choices that are no ties and in which the metric scores the sides differently."],
            )
        )
    if metrics["signatures"]:
        tables.append(
            Table(
                title="Signatures",
                columns=("metric", "signature"),
                rows=list(metrics["signatures"].items()),
                text=True,
            )
        )
    intro = "The same replies that people judged, scored by metrics, without the participants who are left out."
    return Section(anchor="metrics", title="Metrics beside people", text=[intro], tables=tables)


def _settings(report: Json) -> Section:
    settings = report["settings"]
    facts = [
        ("level of intervals", f"{settings['level']:g}"),
        ("draws", f"{settings['draws']:,} of {'participants' if settings['clustered'] else 'single ratings'}"),
        ("seed", str(settings["seed"])),
        *((f"protocol {sha256[:16]}", f"{number:,} tasks") for sha256, number in report["protocols"].items()),
        ("refaug", report["refaug"]),
    ]
    return Section(
        anchor="how",
        title="How it was made",
        tables=[Table(title="Settings", columns=("what", "value"), rows=facts, text=True)],
    )


def _number(figure: float | None) -> str:
    return "–" if figure is None else f"{figure:.3f}"


def _range(low: float | None, high: float | None) -> str:
    return "–" if low is None or high is None else f"[{low:.3f}, {high:.3f}]"


def _p(figure: float | None) -> str:
    if figure is None:
        return "–"
    return "< .001" if figure < 0.001 else f"{figure:.3f}"


def _shown(setting: object) -> str:
    return "yes" if setting is True else str(setting)


# ── The report as a page ──────────────────────────────────────────────────────────────────────────────────────────────

PAGE: Final = "report.html"
MARKDOWN: Final = "report.md"
JSON: Final = "report.json"
_MARKS: Final = re.compile(r"([\\`*_{}\[\]<>#|~])")


def study_page(report: Mapping[str, Any]) -> str:
    """Return the page; names and texts in it are escaped."""
    return report_page(_whole(report))


def study_markdown(report: Mapping[str, Any]) -> str:
    """Return the same as Markdown; what would be a mark or HTML in a name is escaped."""
    return _whole(report).as_markdown(_plain)


def _whole(report: Mapping[str, Any]) -> Report:
    return Report(
        title=f"What people said in study {report['study']}",
        summary=[study_summary(report)],
        warnings=study_warnings(report),
        sections=study_sections(report),
    )


def write_study_report(report: Mapping[str, Any], folder: Path) -> list[Path]:
    """Write the three files and return their paths, the page first; where there is a page, the others are there."""
    page, markdown = study_page(report), study_markdown(report)
    make_folder(folder)
    content = orjson.dumps(report, option=orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE)
    written = [write_file(folder / JSON, content), write_file(folder / MARKDOWN, markdown.encode())]
    return [write_file(folder / PAGE, page.encode()), *written]


def stored_study_pages(document: Mapping[str, Any], shown_name: str) -> tuple[str, str]:
    """Return page and Markdown of a stored report; BadInput where it is of another format or lacks something."""
    if document.get("study_report") != FORMAT:
        raise BadInput(f"{shown_name}: format {document.get('study_report')!r} is not {FORMAT}", remedy="make it again")
    try:
        return study_page(document), study_markdown(document)
    except (KeyError, TypeError, AttributeError, ValueError) as error:
        raise BadInput(
            f"{shown_name} is not as refaug studies report writes it: {error!r}",
            remedy="run refaug studies report again",
        ) from error


def rendered(document: Mapping[str, Any], path: Path) -> dict[str, str]:
    """Return page and Markdown of a stored report, by the names of their files."""
    page, markdown = stored_study_pages(document, str(path))
    return {f"{path.stem}.html": page, f"{path.stem}.md": markdown}


def _plain(text: str) -> str:
    return _MARKS.sub(r"\\\1", make_printable(text))
