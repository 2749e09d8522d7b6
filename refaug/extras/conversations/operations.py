"""What bots can be let do with each other, and what can be said of their conversations."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

from refaug.core.errors import Usage
from refaug.core.options.declaring import Argument, Distinct, Doc, Ge, Le, Length, Metavar, NoFlag
from refaug.extras.conversations.options import (
    ConversationSource,
    EncoderRequest,
    HybridSettings,
    Target,
    TurnReferences,
)
from refaug.extras.conversations.selfplay.rules import EMPTY, FILE, SelfPlayRules, parse_start
from refaug.metrics.costs import UNITS_PER_S, require_work
from refaug.operations.operation import Name, Operation, OwnedOperation, Text, Threads
from refaug.operations.scoring_options import ReferenceOptions, within

if TYPE_CHECKING:
    from refaug.core.home import Settings
    from refaug.extras.conversations.judged import TurnJudges
    from refaug.scoring.metric_setup.model_registry import ModelRegistry


TURN_METRICS = Doc(
    "A metric that scores every reply in its context, without a gold, such as rater:refs=none, likelihood:model=VHRED "
    "or upsilon-bleu."
)


@dataclass(frozen=True, kw_only=True)
class TurnMetrics(ReferenceOptions):
    """The metrics of turns, with the index that references are found in, and the rater that weighs them."""

    metrics: Annotated[tuple[Text, ...], Length(0, 100), Distinct(), Metavar("METRIC"), TURN_METRICS] = ()
    settings: Annotated[TurnReferences, Doc("How references of turns are found, rated and weighed.")] = field(
        default_factory=TurnReferences
    )

    def check(self) -> None:
        """Refuse what is of metrics where none is named."""
        super().check()
        if not self.metrics:
            if idle := next((name for name in ("rater", "index") if getattr(self, name) is not None), None):
                raise Usage("no metric of turns is named", remedy="name one, such as rater:refs=none", field=idle)
            with within("settings"):
                self.settings.require_no_effect("without a metric of turns", remedy="name one, or leave it out")

    def metrics_named(self) -> list[str]:
        """Return the metrics."""
        return list(self.metrics)

    def judges_of(self, home: Settings, threads: int | None) -> TurnJudges | None:
        """Return the metrics with the models of a home; None without a metric. Usage where a model is missing."""
        from refaug.scoring.metric_setup.model_registry import ModelRegistry  # noqa: PLC0415  compiles

        if not self.metrics:
            return None
        self.require_models(home, self.metrics)
        return self.judges(ModelRegistry(home, threads, default_rater=self.rater), self.metrics)

    def judges(self, models: ModelRegistry, metrics: Sequence[str]) -> TurnJudges:
        """Return the metrics with their models; files in their names as the face has found them."""
        from refaug.extras.conversations.judged import TurnJudges  # noqa: PLC0415  compiles

        return TurnJudges(metrics=list(metrics), models=models, index=self.index, references=self.settings)


@dataclass(frozen=True, kw_only=True)
class PlayConversations(SelfPlayRules, Operation):
    """Let each bot have conversations with itself or a partner; what was stopped goes on where it was."""

    operation: ClassVar[str] = "self-play"
    runs: ClassVar[str] = "refaug.extras.conversations.jobs:self_play_job"
    examples: ClassVar[Mapping[str, Mapping[str, Any]]] = {
        "self-play": {
            "bots": ["retrieval:chat,mode=bm25-utterance", "retrieval:chat,k=10"],
            "name": "both",
            "start": "log:chat",
            "check_log": "chat",
        }
    }

    bots: Annotated[
        tuple[Text, ...],
        Length(1, 100),
        Distinct(),
        Argument("BOT…"),
        Doc("Bots: names of stored ones, or such as retrieval:INDEX,mode=bm25-utterance,k=10."),
    ]
    name: Annotated[Name, Doc("Name of the self-play.")]
    partner: Annotated[Text | None, Metavar("BOT"), Doc("The bot that each of them talks to; by default itself.")] = (
        None
    )
    conversations: Annotated[int, Ge(1), Le(1_000_000), Doc("So many conversations of each bot.")] = 100
    start: Annotated[
        Text,
        Metavar("START"),
        Doc(
            "What conversations begin with: empty, log:NAME, or file:FILE with an utterance a line; of a job, FILE is "
            "`upload:ID`, or lies in inbox/ or a source folder."
        ),
    ] = EMPTY
    batch: Annotated[int, Ge(1), Le(10_000), Doc("Conversations that are played in step; it changes no reply.")] = 256
    retry: Annotated[
        bool,
        Doc("Take the newest version that was played in this way, and play on only what an endpoint's fault ended."),
    ] = False
    check_log: Annotated[
        Name | None,
        Metavar("LOG"),
        Doc("Count what the conversations share with this log and with each other: one that the bots learned from."),
    ] = None
    threads: Threads = None

    def check(self) -> None:
        """Refuse a start that is none."""
        parse_start(self.start)

    @property
    def start_file(self) -> str | None:
        """The file of utterances that conversations begin with, if it names one."""
        kind, source = parse_start(self.start)
        return source if kind == FILE else None

    def bots_named(self) -> list[str]:
        """Return the bots, and the partner behind them."""
        return [*self.bots, *([self.partner] if self.partner is not None else [])]

    def sources_named(self) -> list[str]:
        """Return the file that conversations begin with."""
        return [self.start_file] if self.start_file is not None else []

    @property
    def replies(self) -> int:
        """How many replies the bots give, if no conversation ends early."""
        return len(self.bots) * self.conversations * self.turns

    def cost(self) -> float:
        """Return the units of all replies, were all as long as they may be."""
        return self.replies * self.reply_units

    def require_within(self, setting: Callable[[str], float]) -> None:
        """Raise TooLarge for more work than a server's settings allow one self-play."""
        limit_s = setting("self_play_s")
        require_work(
            self.cost(),
            limit_s,
            what=f"a self-play of {self.replies:,} replies",
            setting="self_play_s",
            remedy=f"at most {int(limit_s * UNITS_PER_S // self.reply_units):,} replies: bots, conversations and turns",
        )

    def resources(self) -> tuple[str, ...]:
        """Return the self-play."""
        return (f"self-play/{self.name}",)


@dataclass(frozen=True, kw_only=True)
class JudgeConversations(ConversationSource, TurnMetrics, OwnedOperation):
    """Score every reply of a bot in its context, without a gold: the mean, the worst reply, and the course."""

    operation: ClassVar[str] = "judge-conversations"
    runs: ClassVar[str] = "refaug.extras.conversations.jobs:judge_conversations_job"
    examples: ClassVar[Mapping[str, Mapping[str, Any]]] = {
        "conversations, turn by turn": {
            "conversations": "upload:0gk2xv7q3m9t00d4z8r1c5w6ab",
            "metrics": ["rater:refs=none", "upsilon-bleu"],
            "rater": "chat",
            "index": "chat",
        }
    }

    metrics: Annotated[tuple[Text, ...], Length(1, 100), Distinct(), Metavar("METRIC"), TURN_METRICS] = (
        field()  # without the default of the base
    )
    target: Annotated[Target, Doc("The question that figures are compared with; without it the mean over all.")] = None
    threads: Threads = None
    name: Annotated[
        str,
        Length(0, 200),
        NoFlag("a command prints the scores"),
        Doc("What the file with the scores is called; by default after that of the conversations."),
    ] = ""

    def sources_named(self) -> list[str]:
        """Return the file of the conversations."""
        return self.conversation_files


@dataclass(frozen=True, kw_only=True)
class HybridOptions(ConversationSource, EncoderRequest, HybridSettings, TurnMetrics):
    """Which conversations count, as which numbers, and how the hybrid metric is fitted to them."""

    threads: Threads = None


@dataclass(frozen=True, kw_only=True)
class FitHybrid(HybridOptions, Operation):
    """Fit the hybrid metric to rated conversations, and keep it with its figures on bots that were left out."""

    operation: ClassVar[str] = "hybrid-fit"
    runs: ClassVar[str] = "refaug.extras.conversations.jobs:hybrid_fit_job"
    examples: ClassVar[Mapping[str, Mapping[str, Any]]] = {
        "a hybrid": {"conversations": "upload:0gk2xv7q3m9t00d4z8r1c5w6ab", "name": "talks", "vectors": "chat"}
    }

    name: Annotated[Name, Doc("Name of the hybrid.")]
    columns: Annotated[
        Literal["hybrid", "wide"], Doc("hybrid: the eleven components; wide: with plain counts and metrics of turns.")
    ] = "hybrid"

    def check(self) -> None:
        """Refuse metrics of turns that no column comes of, and columns that the paper does not have."""
        super().check()
        if self.metrics and self.columns != "wide":
            message = "the eleven components have no metrics of turns"
            raise Usage(message, remedy="wide columns, or no metrics", field="metrics")
        if self.preset is not None and self.columns != "hybrid":
            message = f"{self.columns} with preset {self.preset}, which has the eleven components"
            raise Usage(message, remedy="leave one of the two out", field="columns")

    def sources_named(self) -> list[str]:
        """Return the file of the conversations, and those of encoders."""
        return [*self.conversation_files, *self.encoder_files]

    def resources(self) -> tuple[str, ...]:
        """Return the hybrid."""
        return (f"hybrid/{self.name}",)
