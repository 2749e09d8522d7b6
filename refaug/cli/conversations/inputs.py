"""What commands about whole conversations read: a file of conversations or self-play, encoders, metrics of turns."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from refaug.cli.shared.index_options import ModeOption
from refaug.cli.shared.output import file_or_stdin
from refaug.cli.shared.required_models import require_models
from refaug.core.errors import Usage
from refaug.evaluation.scoring.augment_settings import AugmentSettings
from refaug.indexer.search.search_settings import MAX_REFERENCES, SearchSettings

if TYPE_CHECKING:
    from refaug.core.home import Settings
    from refaug.core.progress import Progress
    from refaug.evaluation.conversations.encoders.opening import EncoderRequest
    from refaug.evaluation.conversations.records import Conversation
    from refaug.evaluation.conversations.turn_scores import TurnJudges

SELF_PLAY: Final = "selfplay:"


@dataclass(frozen=True, kw_only=True)
class EncoderOptions:
    """What texts are read with; a group of options."""

    vectors: Annotated[str, typer.Option(help="Word vectors: a name, name@version, or a file.", metavar="VECTORS")]
    sentiment: Annotated[
        str, typer.Option(help="vader (English), none, lexicon:FILE, or deepmoji:FOLDER with a model in ONNX.")
    ] = "vader"
    meaning: Annotated[
        str,
        typer.Option(help="mean of the word vectors, or a model in ONNX: onnx:FOLDER, infersent1:FOLDER, use3:FOLDER."),
    ] = "mean"

    @property
    def request(self) -> EncoderRequest:
        """The encoders, not yet opened."""
        from refaug.evaluation.conversations.encoders.opening import EncoderRequest  # noqa: PLC0415  numpy

        return EncoderRequest(vectors=self.vectors, sentiment=self.sentiment, meaning=self.meaning)


@dataclass(frozen=True, kw_only=True)
class TurnOptions:
    """The metrics that score turns, and what they are given; a group of options."""

    metric: Annotated[
        list[str] | None,
        typer.Option(
            "--metric",
            "-m",
            help="A metric that scores every reply in its context, such as rater:refs=none; repeat it.",
            metavar="METRIC",
        ),
    ] = None
    rater: Annotated[
        str | None,
        typer.Option(help="Rater of replies, and of references that are found: name or name@version.", metavar="NAME"),
    ] = None
    index: Annotated[
        str | None,
        typer.Option(help="Index that references of the turns are found in: name or name@version.", metavar="NAME"),
    ] = None
    k: Annotated[int, typer.Option("-k", help="References to find.", min=1, max=MAX_REFERENCES)] = SearchSettings.k
    mode: ModeOption = SearchSettings.mode
    reference_weights: Annotated[
        str, typer.Option("--reference-weights", help="What references that are found weigh: rated, or one.")
    ] = AugmentSettings.weights

    def judges(self, home: Settings, threads: int | None) -> TurnJudges | None:
        """Return the metrics with their models; None without a metric. Usage where a model is missing or unused."""
        from refaug.evaluation.conversations.turn_scores import TurnJudges  # noqa: PLC0415  numpy
        from refaug.evaluation.metric_setup.model_registry import MetricModels  # noqa: PLC0415

        metrics = self.metric or []
        if not metrics:
            if self.rater or self.index:
                raise Usage("--rater or --index without a metric of turns", remedy="-m rater:refs=none")
            return None
        asks_rater = require_models(home, metrics, rater=self.rater, index=self.index)
        references = AugmentSettings(
            gold="none",
            weights=self.reference_weights,  # type: ignore[arg-type]
            k=self.k,
            mode=self.mode,  # type: ignore[arg-type]
        )
        weighs = self.index is not None and references.needs_rater
        if self.rater is not None and not asks_rater and not weighs:
            raise Usage("--rater, and nothing is to be rated", remedy="leave it out, or name a metric that asks it")
        if weighs and self.rater is None:
            raise Usage(
                "references are rated, and no rater is named", remedy="--rater NAME, or --reference-weights one"
            )
        return TurnJudges(
            metrics=metrics,
            models=MetricModels.of(home, threads, rater=self.rater),
            index=self.index,
            references=references,
        )


@dataclass(frozen=True, kw_only=True)
class ConversationOptions:
    """How a file of conversations is read; a group of options."""

    bot: Annotated[str | None, typer.Option(help="The bot of conversations that name none.", metavar="NAME")] = None
    without: Annotated[
        list[str] | None, typer.Option(help="A bot to leave out, such as a degraded one; repeat it.", metavar="BOT")
    ] = None
    mapping: Annotated[
        list[str] | None,
        typer.Option(
            "--map",
            help="Which column of a table holds what: conversation, role, text, or turns; bot, participant, "
            "rating:QUESTION; repeat it.",
            metavar="FIELD=COLUMN",
        ),
    ] = None
    scale: Annotated[
        str | None, typer.Option(help="The ends of the ratings of a table, such as 1-7.", metavar="LOW-HIGH")
    ] = None
    encoding: Annotated[
        str | None,
        typer.Option(help="Encoding of a table, such as latin-1; without it, UTF-8 or what its first bytes say."),
    ] = None


def read_talks(home: Settings, source: Path, progress: Progress, options: ConversationOptions) -> list[Conversation]:
    """Return the conversations of a file, or of `selfplay:NAME`, without those of some bots.

    Lines that hold none are reported and left out.
    """
    from refaug.evaluation.conversations.talks import without_bots  # noqa: PLC0415

    name = str(source)
    if name.startswith(SELF_PLAY):
        from refaug.evaluation.conversations.played import played_conversations  # noqa: PLC0415

        talks = played_conversations(home, name.removeprefix(SELF_PLAY), progress)
    else:
        with file_or_stdin(source) as path:
            talks = _read(path, "stdin" if name == "-" else name, options, progress)
    return without_bots(talks, options.without or [])


def _read(path: Path, shown_name: str, options: ConversationOptions, progress: Progress) -> list[Conversation]:
    from refaug.evaluation.conversations.table_rows import ConversationColumns  # noqa: PLC0415
    from refaug.evaluation.conversations.talks import usable_talks  # noqa: PLC0415

    columns = ConversationColumns.parse(options.mapping or [], options.scale, options.encoding)
    return usable_talks(path, shown_name, columns, progress, bot=options.bot)
