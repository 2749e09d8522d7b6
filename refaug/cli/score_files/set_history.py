"""`refaug sets history` and `refaug sets leaderboard`: recorded scores against a frozen set."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from refaug.cli.shared.output import JsonFlag, count_of, print_json, print_line, print_table, print_warning
from refaug.core.home import Settings
from refaug.scoring.settings import MAX_DRAWS, MAX_SEED, ScoreSettings

if TYPE_CHECKING:
    from refaug.scoring.reference_sets.set_history import HistoryEntries

_Id = Annotated[str, typer.Argument(help="Id of the set, or at least the first 6 characters of it.", metavar="ID")]


def _history(settings: Settings, name: str) -> tuple[str, HistoryEntries]:
    """Return the id of the set and its entries; a warning says how many lines are damaged."""
    from refaug.scoring.reference_sets.set_history import SetHistory  # noqa: PLC0415  compiles
    from refaug.scoring.reference_sets.set_store import ReferenceSets  # noqa: PLC0415

    history = SetHistory(ReferenceSets(settings.reference_sets).open(name, even_withdrawn=True))
    entries = history.read()
    if entries.damaged:
        print_warning(f"{history.path}: {count_of(entries.damaged, 'line')} cut off or changed, and skipped")
    return history.reference_set.id, entries


def history_command(context: typer.Context, name: _Id, as_json: JsonFlag = False) -> None:
    """The scores against a set that were recorded by sets score --record, in order; withdrawn sets too."""
    set_id, history = _history(context.obj, name)
    if as_json:
        print_json({"set": set_id, "damaged": history.damaged, "entries": [_plain(entry) for entry in history.entries]})
        return
    rows = [
        (
            entry["at"],
            entry["name"],
            system,
            scores["metric"],
            _figure(figures["corpus"]),
            _span(figures["interval"]),
            figures["scored"],
            figures["unscored"],
            entry["replies"],
        )
        for entry in history.entries
        for scores in entry["scores"]
        for system, figures in scores["systems"].items()
    ]
    columns = ("at", "run", "system", "metric", "corpus", "interval", "scored", "unscored", "replies")
    print_table(f"set {set_id}: {len(history.entries):,} recorded", columns, rows)


def leaderboard_command(
    context: typer.Context,
    name: _Id,
    metric: Annotated[
        list[str] | None, typer.Option("--metric", "-m", help="Only this metric; repeat it.", metavar="NAME")
    ] = None,
    draws: Annotated[int, typer.Option(help="Draws of the tests.", min=1, max=MAX_DRAWS)] = ScoreSettings.draws,
    seed: Annotated[int, typer.Option(help="Seed of the tests.", min=0, max=MAX_SEED)] = ScoreSettings.seed,
    as_json: JsonFlag = False,
) -> None:
    """Rank the latest recorded scores of each run and system against a set, and say which differences are shown.

    Every row is tested against the first, on the same items, with Holm's correction over the rows. Runs by other
    settings or against other references stand in another table.
    """
    from refaug.scoring.comparison.leaderboard import leaderboards  # noqa: PLC0415  compiles

    set_id, history = _history(context.obj, name)
    tables = leaderboards(history.entries, ScoreSettings(draws=draws, seed=seed), metric or ())
    if as_json:
        print_json({"set": set_id, "leaderboards": [table.as_json() for table in tables]})
        return
    if not tables:
        print_line(f"set {set_id}: nothing is recorded; refaug sets score … --record NAME does it")
    for table in tables:
        rows = [
            (
                row.rank,
                row.run,
                row.system,
                _figure(row.corpus),
                _span(row.interval),
                _figure(row.difference),
                _span(row.difference_interval),
                _figure(row.holm_p),
                "" if row.rank == 1 else "yes" if row.is_shown else "no",
            )
            for row in table.rows
        ]
        columns = ("rank", "run", "system", "corpus", "interval", "difference", "its interval", "Holm", "shown")
        print_table(table.signature, columns, rows)


def _plain(entry: Any) -> dict[str, object]:
    """Return an entry without its packed arrays."""
    scores = [
        {
            **one_metric,
            "systems": {
                system: {field: part for field, part in figures.items() if not field.startswith("packed_")}
                for system, figures in one_metric["systems"].items()
            },
        }
        for one_metric in entry["scores"]
    ]
    return {**entry, "scores": scores}


def _figure(score: float | None) -> str:
    return "-" if score is None else f"{score:.4f}"


def _span(interval: Any) -> str:
    return "-" if interval is None else f"[{interval[0]:.4f}, {interval[1]:.4f}]"
