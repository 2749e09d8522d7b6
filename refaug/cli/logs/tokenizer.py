"""`refaug train tokenizer …`: trying tokenizers, and training a vocabulary."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from refaug.cli.shared.output import JsonFlag, print_facts, print_json, print_line, print_table
from refaug.cli.shared.progress import display_progress
from refaug.core.errors import Usage
from refaug.core.progress import Progress
from refaug.core.text.tokenizer_training import TokenizerTraining, train_sentencepiece
from refaug.core.text.tokenizers import TOKENIZERS, get_tokenizer
from refaug.logs.store import StoredLog


def list_command(as_json: JsonFlag = False) -> None:
    """The tokenizers there are, by the names that settings and signatures use."""
    rows = [{"name": kind.spelling, "what": kind.summary, "needs": list(kind.packages)} for kind in TOKENIZERS]
    if as_json:
        print_json({"tokenizers": rows})
    else:
        print_table("tokenizers", ("name", "what", "needs"), [tuple(row.values()) for row in rows])


def run_command(
    name: Annotated[str, typer.Argument(help="Name of the tokenizer, e.g. word or sentencepiece:FILE.model.")],
    text: Annotated[list[str] | None, typer.Argument(help="Texts; without any, lines of standard input.")] = None,
    as_json: JsonFlag = False,
) -> None:
    """Show the tokens of some texts."""
    tokenizer = get_tokenizer(name)
    if as_json and text:
        tokens = tokenizer.tokenize_batch(text)
        print_json({"tokenizer": tokenizer.name, "version": tokenizer.version, "tokens": tokens})
        return
    if as_json:
        raise Usage("--json takes the texts as arguments", remedy="without --json, lines are read from standard input")
    for line in text or (line.rstrip("\n") for line in sys.stdin):
        print_line(" ".join(tokenizer.tokenize(line)))


def train_command(
    context: typer.Context,
    logs: Annotated[list[str], typer.Argument(help="Logs whose texts are used.", metavar="LOG…")],
    output: Annotated[
        Path, typer.Option(help="Where the model goes; its manifest lies beside it.", metavar="FILE.model")
    ],
    size: Annotated[int, typer.Option(help="Pieces, pad and unk not counted.")] = 16_000,
    sample: Annotated[int, typer.Option(help="At most this many texts are used, drawn with --seed.")] = 2_000_000,
    seed: Annotated[int, typer.Option(help="Another seed, another sample.")] = 1,
    language: Annotated[str, typer.Option(help="Decides how many rare characters get a piece.")] = "en",
    as_json: JsonFlag = False,
) -> None:
    """Train a SentencePiece unigram model; the same logs and settings give the same file."""
    opened = [StoredLog.open(context.obj.logs, name) for name in logs]
    settings = TokenizerTraining(vocab_size=size, sample=sample, seed=seed, language=language)
    with display_progress(quiet=context.obj.quiet) as progress:
        progress.stage("training the vocabulary", sum(log.manifest.totals.get("pairs", 0) for log in opened), "pairs")
        trained = train_sentencepiece(_texts(opened, progress), output, settings)
    facts = {name: fact for name, fact in asdict(trained).items() if name != "settings"}
    facts["path"] = str(trained.path)
    if as_json:
        print_json({**facts, "settings": asdict(trained.settings)})
    else:
        print_facts(f"trained {trained.path}", facts)


def _texts(logs: Sequence[StoredLog], progress: Progress) -> Iterator[str]:
    return (text for log in logs for turns in log.turns(progress) for text in turns.to_pylist())
