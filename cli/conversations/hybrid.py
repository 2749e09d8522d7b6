"""`refaug hybrid …`: the hybrid metric of whole conversations."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from refaug.cli.shared.field_options import with_options
from refaug.cli.shared.output import JsonFlag, file_or_stdin, print_facts, print_json, print_line, print_table
from refaug.cli.shared.progress import display_progress
from refaug.core.errors import BadInput, Usage

if TYPE_CHECKING:
    from refaug.core.home import Settings
    from refaug.core.progress import Progress
    from refaug.core.vectors.word_vectors import WordVectors
    from refaug.evaluation.conversations.records import Conversation
    from refaug.evaluation.conversations.text_readers import SentimentReader

app = typer.Typer(
    help="The hybrid metric of whole conversations, beside what it has to be better than.", no_args_is_help=True
)

_MOST_SHOWN = 5  # bad lines


@app.callback()
def hybrid_commands() -> None:
    """Keep `evaluate` a command of its own."""


@dataclass(frozen=True, kw_only=True)
class _FormOptions:
    """The forms of components where the paper and its released code differ; a group of options."""

    laughter: Annotated[str, typer.Option(help="token: words that are laughter; substring: every ha.")] = "token"
    questions: Annotated[str, typer.Option(help="half: half for ?, half for a question word; both: 1 for both.")] = (
        "half"
    )
    greedy: Annotated[str, typer.Option(help="both directions, or user: the best word for each of the user's.")] = (
        "both"
    )
    slope: Annotated[str, typer.Option(help="turns, or masked: with a final 0 for the answer not given.")] = "turns"


@app.command("evaluate")
@with_options
def evaluate_command(
    context: typer.Context,
    conversations: Annotated[
        Path, typer.Argument(help="Rated conversations in JSONL, compressed or not; - for stdin.")
    ],
    *,
    vectors: Annotated[str, typer.Option(help="Word vectors: a name, name@version, or a file.", metavar="VECTORS")],
    sentiment: Annotated[str, typer.Option(help="vader (English), or none.")] = "vader",
    target: Annotated[
        str | None, typer.Option(help="The question to predict; without it the mean over all.", metavar="QUESTION")
    ] = None,
    without: Annotated[
        list[str] | None, typer.Option(help="A bot to leave out, such as a degraded one; repeat it.", metavar="BOT")
    ] = None,
    ridge: Annotated[float, typer.Option(help="The penalty of a ridge; 0 is least squares.", min=0)] = 0.0,
    draws: Annotated[int, typer.Option(help="Draws of intervals and controls.", min=100, max=100_000)] = 1000,
    seed: Annotated[int, typer.Option(help="Of the draws.", min=0, max=2**32 - 1)] = 1,
    forms: _FormOptions,
    as_json: JsonFlag = False,
) -> None:
    """Say how far the hybrid metric agrees with people on bots that its fit has not seen.

    One bot after the other is left out. Beside the figures stand the intercept alone, shuffled ratings, permuted bots,
    each component alone, and plain counts.
    """
    from refaug.evaluation.conversations.hybrid_report import (  # noqa: PLC0415  scipy
        HybridSettings,
        conversation_table,
        hybrid_report,
        reader_details,
    )
    from refaug.evaluation.conversations.text_readers import VectorReader  # noqa: PLC0415

    settings = HybridSettings(variants=_variants(forms), target=target, penalty=ridge, draws=draws, seed=seed)
    with display_progress(quiet=context.obj.quiet) as progress, file_or_stdin(conversations) as path:
        talks = _read(path, str(conversations), without or [], progress)
        reader_of_sentiment = _sentiment_reader(sentiment, talks)
        word_vectors, name = _open_vectors(context.obj, vectors)
        table = conversation_table(talks, VectorReader(word_vectors, reader_of_sentiment), settings, progress)
        report = hybrid_report(table, settings, reader_details(name, reader_of_sentiment))
    if as_json:
        print_json(report)
        return
    _print_report(report)


def _variants(forms: _FormOptions) -> Any:
    from refaug.metrics.conversations.components import Variants  # noqa: PLC0415  numpy

    allowed = {
        "laughter": ("token", "substring"),
        "questions": ("half", "both"),
        "greedy": ("both", "user"),
        "slope": ("turns", "masked"),
    }
    for option, forms_of_option in allowed.items():
        if (form := getattr(forms, option)) not in forms_of_option:
            raise Usage(f"--{option} {form} is no form of it", remedy=" or ".join(forms_of_option))
    return Variants(**{option: getattr(forms, option) for option in allowed})


def _read(path: Path, shown_name: str, without: list[str], progress: Progress) -> list[Conversation]:
    """Return the conversations of a file without those of some bots; lines that hold none are told and left out."""
    from refaug.evaluation.conversations.reading import read_conversations  # noqa: PLC0415
    from refaug.evaluation.conversations.records import Conversation  # noqa: PLC0415

    talks, bad = list[Conversation](), 0
    progress.stage("reading", unit="conversations")
    for entry in read_conversations(path):
        if isinstance(entry, Conversation):
            talks.append(entry)
            progress.advance(1)
            continue
        bad += 1
        if bad <= _MOST_SHOWN:
            field = f", {entry.field}" if entry.field else ""
            progress.warn(f"{shown_name}, line {entry.line}{field}: {entry.message}")
    if bad > _MOST_SHOWN:
        progress.warn(f"{shown_name}: {bad - _MOST_SHOWN:,} more lines hold no usable conversation")
    if not talks:
        raise BadInput(f"{shown_name} holds no usable conversation", remedy="docs/hybrid.md shows one")
    if unknown := set(without) - {talk.bot for talk in talks}:
        bots = ", ".join(sorted({talk.bot for talk in talks}))
        raise BadInput(f"no conversation is with a bot called {min(unknown)!r}", remedy=f"the bots are {bots}")
    return [talk for talk in talks if talk.bot not in without]


def _sentiment_reader(name: str, talks: list[Conversation]) -> SentimentReader | None:
    from refaug.evaluation.conversations.text_readers import VaderSentiment  # noqa: PLC0415

    if name == "none":
        return None
    if name != "vader":
        raise Usage(f"--sentiment {name} is not known", remedy="vader or none")
    reader = VaderSentiment()
    reader.require_language(text for talk in talks for _, text in talk.turns)
    return reader


def _open_vectors(home: Settings, spec: str) -> tuple[WordVectors, str]:
    """Open vectors of the home by their name, or a file; return them with their name in signatures."""
    from refaug.core.artefacts.kinds import artefact_stores  # noqa: PLC0415
    from refaug.core.vectors.word_vectors import open_word_vectors  # noqa: PLC0415  numpy
    from refaug.indexer.index_folders import open_vectors_version  # noqa: PLC0415

    if Path(spec).exists():
        opened = open_word_vectors(Path(spec))
        return opened, opened.name
    with artefact_stores(home)["vectors"].open(spec) as held:
        opened = open_vectors_version(held)
        return opened, f"{held.name}@{held.version}#{opened.sha256[:12]}"


def _print_report(report: dict[str, Any]) -> None:
    print_line(report["signature"])
    facts = {"conversations": report["conversations"], "unrated": report["unrated"], "bots": len(report["bots"])}
    if missing := {name: count for name, count in report["missing"].items() if count}:
        facts["without"] = ", ".join(f"{name} {count:,}" for name, count in missing.items())
    facts["intercept alone"] = (
        f"{_digits(report['intercept_only']['pearson'])}: what the published form gives for nothing"
    )
    print_facts("hybrid metric, one bot left out at a time", facts)
    print_table(
        "agreement over bots (Pearson, icpt:common)",
        ("columns", "r", "95 %", "shuffled ratings", "p", "shown", "published form", "within bots"),
        [_set_row(name, figures) for name, figures in report["sets"].items()],
    )
    reason = next(iter(report["sets"].values()))["agreement"]["common"]["reason"]
    if reason:
        print_line(reason)
    print_table(
        "each column alone: correlation of the bots' means, without a fit",
        ("column", "Pearson", "Spearman"),
        [
            (name, _digits(figures["pearson"]), _digits(figures["spearman"]))
            for name, figures in report["alone"].items()
        ],
    )
    for name, comparison in report["against_counts"].items():
        if comparison["interval"] is not None:
            bounds = _range(comparison["interval"])
            shown = "better, shown" if comparison["is_shown"] else "not shown to be better"
            print_line(f"{name} - {comparison['count']}: {comparison['difference']:+.3f} {bounds}: {shown}")


def _set_row(name: str, figures: dict[str, Any]) -> tuple[str, ...]:
    return (
        name,
        _digits(figures["agreement"]["common"]["pearson"]),
        _range(figures["interval"]),
        _range(figures["shuffled_ratings"]),
        f"{figures['permuted_bots']['p']:.3f}",
        "yes" if figures["is_shown"] else "no",
        _digits(figures["agreement"]["fold"]["pearson"]),
        _digits(figures["within_bots"]),
    )


def _range(interval: dict[str, Any]) -> str:
    return f"[{interval['low']:.2f}, {interval['high']:.2f}]"


def _digits(figure: float | None) -> str:
    return "–" if figure is None else f"{figure:.3f}"
