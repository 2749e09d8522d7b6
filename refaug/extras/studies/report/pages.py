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
from refaug.extras.studies.report.results import people_text, rank_range, result_sections
from refaug.extras.studies.report.wording import (
    NONE,
    count_text,
    missing_intervals,
    number_text,
    p_text,
    question_title,
    range_text,
    rule_text,
    without_empty_columns,
)
from refaug.metrics.statistics.resampling import FEWEST_UNITS
from refaug.tables.reports.html_page import report_page, write_file
from refaug.tables.reports.report import Report, Section
from refaug.tables.reports.table import Table

# ── The tables of a study report with their sentences, from its JSON alone; page and Markdown show the same ───────────

ANALYSES: Final = {
    "kept": "without the participants who are left out",
    "all": "with all participants",
    "unnamed": "without replies that name their bot",
    "decided": "with what was decided where participants disagreed",
}
_FITS: Final = {
    "half": "Bradley–Terry, a tie as half a win for each",
    "davidson": "Bradley–Terry, ties as an outcome of their own (Davidson)",
    "length": "Bradley–Terry at equal length of replies",
}
REASONS: Final = "Who is left out, and why"
_MOST_PARTICIPANTS: Final = 500  # in a table of reasons
_MOST_STEPS: Final = 50

Json = Mapping[str, Any]


def study_sections(report: Json) -> list[Section]:
    """Return all sections in order."""
    sections = [*result_sections(report), _people(report)]
    if report["metrics"] is not None:
        sections.append(_metrics(report["metrics"]))
    sections += [
        Section(
            anchor=name,
            title=f"In detail: {ANALYSES[name]}",
            text=[people_text(analysis)],
            tables=list(_analysis_tables(analysis)),
        )
        for name, analysis in _detailed(report).items()
    ]
    return [*sections, _settings(report)]


def _detailed(report: Json) -> dict[str, Json]:
    """Return the analyses that have figures; without exclusions, that of all participants stands for both."""
    analyses: dict[str, Json] = dict(report["analyses"])
    if not report["exclusions"]["excluded"]:
        del analyses["kept"]
    with_tables = ("ratings", "choices", "agreement")
    return {name: analysis for name, analysis in analyses.items() if any(analysis[part] for part in with_tables)}


def study_summary(report: Json) -> str:
    """Return what the study is, in a sentence or two."""
    counts, left_out = report["counts"], report["exclusions"]
    done, by_hand = counts["tasks"]["done"], left_out["by_rule"].get(BY_HAND, 0)
    how = " by the rules of the protocol" if left_out["excluded"] else ""
    if by_hand:
        how = f", {by_hand:,} of them by hand"
    rules = "" if left_out["has_protocol"] else " Without the protocol, no rule was applied and no question turned."
    return (
        f"Study {report['study']}, of kind {report['kind']}: {count_text(counts['participants'], 'participant')}, "
        f"{count_text(done, 'finished task')}, {count_text(left_out['excluded'], 'participant')} left out{how}.{rules}"
    )


def study_warnings(report: Json) -> list[str]:
    """Return what changes the meaning of the figures."""
    warnings = _few_people(report)
    if routing := report.get("routing"):
        warnings.append(routing["note"])
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


def _few_people(report: Json) -> list[str]:
    """Return the warnings about who is counted; reports that were made before do not say how many are enough."""
    people, needed = report["analyses"]["kept"]["participants"], report.get("people_needed")
    if not people:
        return ["Everybody is left out: the figures are those of everybody."]
    if needed is None or people >= needed["conclusion"]:
        return []
    return [
        f"Too few: {count_text(people, 'participant')} counted. Below {needed['conclusion']} the figures show a "
        f"direction at best, and below {needed['interval']} there are no intervals and no p."
    ]


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


def _checks(checks: Json) -> Iterator[tuple[str, str]]:
    """Yield the rows about the checks that the study has."""
    if checks["attention"]["asked"]:
        yield "attention checks passed", f"{checks['attention']['passed']:,} of {checks['attention']['asked']:,}"
    for question, mean in checks["degraded"].items():
        yield f"mean of the degraded bot, {question}", number_text(mean)
    if checks["repeats"]["mean_difference"] is not None:
        yield "mean difference of repeated answers", number_text(checks["repeats"]["mean_difference"])


def _minutes(minutes: Json) -> list[tuple[str, str]]:
    """Return the rows about time: median and quartiles."""
    names = {"a_task": "minutes a task: median (quartiles)", "a_participant": "minutes a participant, all tasks"}
    return [
        (names[of], f"{spread['median']:.1f} ({spread['lower']:.1f} to {spread['upper']:.1f})")
        for of, spread in minutes.items()
        if spread is not None
    ]


def _steps(steps: Sequence[Json]) -> list[Table]:
    """Return the table that shows where participants stopped."""
    if not steps:
        return []
    columns = ("begun", "done", "skipped", "expired")
    rows = [(f"task {step['task']:,}", *(f"{step[name]:,}" for name in columns)) for step in steps[:_MOST_STEPS]]
    more = len(steps) - _MOST_STEPS
    return [
        Table(
            title="How far participants came",
            columns=("step", "participants who began", "finished", "skipped", "left without a word"),
            rows=rows,
            notes=[f"{more:,} more steps are in the JSON."] if more > 0 else [],
        )
    ]


def _people(report: Json) -> Section:
    counts, left_out, checks = report["counts"], report["exclusions"], report["checks"]
    facts = [
        ("participants", f"{counts['participants']:,}"),
        *((f"tasks {state}", f"{number:,}") for state, number in counts["tasks"].items()),
        ("tasks of the pilot, not counted", f"{counts['pilot_left_out']:,}"),
        ("tasks in which a reply names its bot", f"{counts['names_bot']:,}"),
        *_decisions(report.get("decisions")),
        *_minutes(report.get("minutes") or {}),
        *_checks(checks),
        *((f"skipped: {reason or 'no reason'}", f"{number:,}") for reason, number in counts["skip_reasons"].items()),
    ]
    rules = [
        (rule_text(rule, left_out["rules"].get(rule)), f"{left_out['judged'][rule]:,}", f"{number:,}")
        for rule, number in left_out["by_rule"].items()
    ]
    reasons = [
        (participant, rule_text(reason["rule"], left_out["rules"].get(reason["rule"])), reason["detail"])
        for participant, broken in left_out["reasons"].items()
        for reason in broken
    ]
    tables = [
        Table(title="Counts", columns=("what", "number"), rows=facts),
        *_steps(report.get("steps") or []),
        Table(title="Rules of exclusion", columns=("who", "participants judged", "left out"), rows=rules),
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
    yield from map(without_empty_columns, _all_tables(analysis))


def _all_tables(analysis: Json) -> Iterator[Table]:
    for question, ratings in analysis["ratings"].items():
        yield from _rating_tables(question, ratings)
    for question, choices in analysis["choices"].items():
        yield from _choice_tables(question, choices)
    if analysis["agreement"]:
        yield _agreement_table(analysis["agreement"])
    if analysis["votes"]:
        yield Table(
            title="Votes on replies",
            columns=("bot", "people", "replies", "up", "down", "share up", "interval (Wilson)"),
            rows=[
                (
                    bot,
                    f"{votes['participants']:,}" if "participants" in votes else NONE,
                    f"{votes['replies']:,}",
                    f"{votes['up']:,}",
                    f"{votes['down']:,}",
                    number_text(votes["share_up"]["value"]),
                    range_text(votes["share_up"]["low"], votes["share_up"]["high"]),
                )
                for bot, votes in analysis["votes"].items()
            ],
            notes=missing_intervals(
                {"why": "few"} for votes in analysis["votes"].values() if votes["share_up"]["low"] is None
            ),
        )


def _rating_tables(question: str, ratings: Json) -> Iterator[Table]:
    yield Table(
        title=f"{question_title(question)}: means",
        columns=("bot", "n", "participants", "mean", "SD", "interval, participants drawn", "interval, t"),
        rows=[_mean_row(figure) for figure in ratings["means"]],
        notes=[
            *missing_intervals(ratings["means"]),
            "The t interval takes single ratings for independent; it is there to be compared with published ones.",
        ],
    )
    if ratings["differences"]:
        yield Table(
            title=f"{question_title(question)}: differences of bots",
            columns=("first", "second", "difference", "interval", "p", "p (Holm)"),
            rows=[
                (
                    entry["first"],
                    entry["second"],
                    f"{entry['difference']:+.3f}",
                    range_text(entry["low"], entry["high"]),
                    p_text(entry["p"]),
                    p_text(entry["p_holm"]),
                )
                for entry in ratings["differences"]
            ],
            notes=missing_intervals(ratings["differences"]),
        )
    if model := ratings.get("model"):  # reports that were made before have none
        yield _model_table(question, model)
        if model["why"] is None and (ordinal := ratings.get("ordinal")):
            yield _ordinal_table(question, ordinal)
    for least, z in ratings["z"].items():
        if z["means"]:
            yield Table(
                title=f"{question_title(question)}: in deviations of the participant, of those with {least} ratings",
                columns=("bot", "n", "participants", "mean", "SD", "interval, participants drawn", "interval, t"),
                rows=[_mean_row(figure) for figure in z["means"]],
                notes=missing_intervals(z["means"]),
            )
    if ratings["factors"]:
        yield Table(
            title=f"{question_title(question)}: factors, ratings exchanged within participants",
            columns=("factor", "ratings", "participants who rated two", "p", "levels, less the participant's mean"),
            rows=[
                (
                    test["factor"],
                    f"{test['n']:,}",
                    f"{test['participants']:,}",
                    p_text(test["p"]),
                    ", ".join(f"{level} {mean:+.3f}" for level, mean in test["levels"].items()),
                )
                for test in ratings["factors"]
            ],
            notes=[f"A p needs {FEWEST_UNITS} participants who rated two levels."]
            if any(test["p"] is None for test in ratings["factors"])
            else [],
        )


def _model_table(question: str, model: Json) -> Table:
    """Return the table of a mixed model: means, differences, and whose levels the ratings vary by."""
    means = [(row["bot"], row["mean"], row) for row in model["means"]]
    gaps = [(f"{row['first']} − {row['second']}", row["difference"], row) for row in model["differences"]]
    notes = [
        _variances_text(model),
        "Random intercepts by restricted maximum likelihood; Wald intervals and tests by t with Satterthwaite's "
        "degrees of freedom. The numbers of the scale count as equally spaced.",
    ]
    return Table(
        title=f"{question_title(question)}: model",
        columns=("bots", "estimate", "SE", "df", "interval", "p", "p (Holm)"),
        rows=[
            (
                name,
                number_text(estimate),
                number_text(row["se"]),
                f"{row['df']:.1f}",
                range_text(row["low"], row["high"]),
                p_text(row.get("p")),
                p_text(row.get("p_holm")),
            )
            for name, estimate, row in [*means, *gaps]
        ],
        notes=notes if model["why"] is None else [f"No model: {model['why']}."],
    )


def _ordinal_table(question: str, model: Json) -> Table:
    """Return the table of an ordinal model: each bot against the mean of all, and pairs."""
    notes = [
        _variances_text(model),
        "Cumulative logit with random intercepts by Laplace's approximation; Wald intervals and tests. Levels are "
        "ordered, not equally spaced. Better: how often a participant prefers the first bot on the same item.",
    ]
    return Table(
        title=f"{question_title(question)}: ordinal model",
        columns=("bots", "log odds", "SE", "interval", "p", "p (Holm)", "first better"),
        rows=[
            (
                f"{row['first']} − {row['second'] or 'mean of all'}",
                number_text(row["log_odds"]),
                number_text(row["se"]),
                range_text(row["low"], row["high"]),
                p_text(row["p"]),
                p_text(row["p_holm"]),
                f"{row['better']:.0%}",
            )
            for row in [*model["bots"], *model["differences"]]
        ],
        notes=notes if model["why"] is None else [f"No model: {model['why']}."],
    )


def _variances_text(model: Json) -> str:
    shares = "; ".join(f"{row['of']} {row['variance']:.3f} ({row['share']:.0%})" for row in model["variances"])
    return f"Variances: {shares}."


def _mean_row(figure: Json) -> tuple[str, ...]:
    return (
        figure["bot"],
        f"{figure['n']:,}",
        f"{figure['participants']:,}",
        number_text(figure["mean"]),
        number_text(figure["sd"]),
        range_text(figure["low"], figure["high"]),
        range_text(figure["t_low"], figure["t_high"]),
    )


def _choice_tables(question: str, choices: Json) -> Iterator[Table]:
    side = choices["is_left"]
    interval = f" {range_text(side['low'], side['high'])}" if side["low"] is not None else ""
    left = f"The left side was chosen in {number_text(side['value'])} of the choices{interval}."
    independent = "Sign tests take choices for independent; the intervals of strengths below are over participants."
    for share, test, title in (("decided", "dropped", "without ties"), ("halved", "halved", "ties halved")):
        yield Table(
            title=f"{question_title(question)}: pairs, {title}",
            columns=("first", "second", "wins", "losses", "ties", "share", "interval (Wilson)", "p", "p (Holm)"),
            rows=[_pair_row(pair, share, test) for pair in choices["pairs"]],
            notes=[*missing_intervals(choices["pairs"]), left, independent],
        )
    for name, fit in choices["bradley_terry"].items():
        if fit is not None:
            yield _strength_table(question_title(question), _FITS[name], fit)


def _pair_row(pair: Json, share: str, test: str) -> tuple[str, ...]:
    outcome = pair["outcome"]
    return (
        pair["first"],
        pair["second"],
        *(f"{outcome[name]:,}" for name in ("wins", "losses", "ties")),
        number_text(outcome[share]["value"]),
        range_text(outcome[share]["low"], outcome[share]["high"]),
        p_text(outcome[f"p_{test}"]),
        p_text(pair[f"{test}_holm"]),
    )


def _strength_table(question: str, name: str, fit: Json) -> Table:
    people = f"{count_text(fit['votes'], 'choice')} of {count_text(fit['participants'], 'participant')}"
    draws = f"; {fit['draws']:,} draws of participants" if fit["draws"] else ""
    notes = [f"{people}{draws}.", *missing_intervals(fit["bots"])]
    if fit["ridged_draws"]:
        notes.append(
            f"{fit['ridged_draws']:,} draws have no chain of wins between all bots; these have a ridge of .01."
        )
    for label, term in (("Davidson's ν", fit["tie"]), ("the coefficient of length", fit["covariate"])):
        if term is not None:
            interval = f" {range_text(term['low'], term['high'])}" if term["low"] is not None else ""
            notes.append(f"{label}: {number_text(term['value'])}{interval}.")
    return Table(
        title=f"{question}: {name}",
        columns=("bot", "strength", "interval", "rank", "rank interval"),
        rows=[
            (
                bot["bot"],
                f"{bot['strength']:+.3f}",
                range_text(bot["low"], bot["high"]),
                str(bot["rank"]),
                rank_range(bot),
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
                number_text(figure["kappa_mean"]),
                number_text(figure["kappa_median"]),
                number_text(figure["ambiguous"]),
            )
            for figure in figures
        ],
        notes=[
            "κ has quadratic weights for numbers and none for choices; ambiguous are items on which as many chose "
            "the first as the second."
        ],
    )


def _alpha(alpha: Json | None) -> str:
    return NONE if alpha is None else number_text(alpha["value"])


# ── Metrics and settings ──────────────────────────────────────────────────────────────────────────────────────────────


def _metrics(metrics: Json) -> Section:
    rows = [
        (
            f"{entry['metric']}, {entry['figure']}",
            entry["question"],
            str(entry["bots"]),
            *(number_text(entry[kind]) for kind in ("pearson", "spearman", "within_bots")),
        )
        for entry in metrics["ratings"]
    ]
    choices = [
        (
            entry["metric"],
            entry["question"],
            f"{entry['agreed']:,} of {entry['choices']:,}",
            number_text(entry["share"]["value"]),
            range_text(entry["share"]["low"], entry["share"]["high"]),
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
