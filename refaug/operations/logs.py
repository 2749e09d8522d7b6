"""Operations on dialogue logs: adding to one, erasing from one, and the nightly job, which goes on to the index."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Annotated, ClassVar, Final, Literal, get_args

from refaug.core.errors import Usage
from refaug.core.options.declaring import Argument, Doc, Ge, Le, Length, Lines, Metavar, NoFlag, Panel, Pattern
from refaug.core.options.decoding import Options, as_values
from refaug.indexer.search.search_settings import Mode
from refaug.operations.operation import MEMORY, Cluster, Memory, Name, Operation, Seed, Share, Spec, Text, Threads

if TYPE_CHECKING:
    from refaug.logs.ingest.order import IngestOrder

Rule = Literal[
    "entities",
    "control",
    "nfc",
    "markup",
    "urls",
    "emails",
    "users",
    "spaces",
    "deleted",
    "bots",
    "too-long",
    "too-short",
    "not-text",
    "script",
    "flood",
]
RULES: Final[tuple[Rule, ...]] = get_args(Rule)


@dataclass(frozen=True, kw_only=True)
class CleaningOptions(Options):
    """How the texts of a log are cleaned."""

    panel: ClassVar[Panel] = Panel("Cleaning", rare=("only_rules", "min_chars", "max_chars", "flood_cap"))

    language: Annotated[
        str | None, Length(1, 35), Doc("Drop messages in another script than this language's, e.g. en, ja.")
    ] = None
    no_rules: Annotated[
        tuple[Rule, ...], Metavar("RULE"), Doc(f"Cleaning rules that are switched off. Rules: {', '.join(RULES)}.")
    ] = ()
    only_rules: Annotated[
        tuple[Rule, ...] | None,
        Metavar("RULES"),
        Doc("Run these cleaning rules only, in a command with commas between them; an empty list, or `none`: no rule."),
    ] = None
    min_chars: Annotated[int, Ge(0), Le(10_000_000), Doc("Shorter messages are dropped.")] = 1
    max_chars: Annotated[int, Ge(1), Le(10_000_000), Doc("Longer messages are dropped.")] = 2_000
    flood_cap: Annotated[int, Ge(1), Le(60_000), Doc("Of near-identical messages this many are kept.")] = 1_000
    block_speakers: Annotated[tuple[Text, ...], Lines(), Metavar("NAME"), Doc("Drop what these speakers said.")] = ()

    def check(self) -> None:
        """Refuse rules that contradict each other, and limits with nothing between them."""
        if self.no_rules and self.only_rules is not None:
            raise Usage("no_rules and only_rules contradict each other", remedy="use one of them", field="only_rules")
        if self.min_chars > self.max_chars:
            message = f"{self.min_chars:,} and max_chars {self.max_chars:,} leave nothing between them"
            raise Usage(message, field="min_chars")

    def ingest_order(self, log: str, sources: Sequence[str], *, memory: int, workers: int | None) -> IngestOrder:
        """Return the ingest of sources in a recognised format."""
        from refaug.logs.ingest.cleaning import CleaningSettings  # noqa: PLC0415  numpy
        from refaug.logs.ingest.order import IngestOrder  # noqa: PLC0415  pyarrow

        every = tuple(rule for rule in RULES if rule not in self.no_rules)
        return IngestOrder(
            sources=tuple(sources),
            log=log,
            cleaning=CleaningSettings(
                rules=every if self.only_rules is None else self.only_rules,
                language=self.language,
                min_chars=self.min_chars,
                max_chars=self.max_chars,
                flood_cap=self.flood_cap,
            ),
            blocked_speakers=frozenset(self.block_speakers),
            memory=memory,
            workers=workers,
        )


if TYPE_CHECKING:
    from refaug.logs.ingest.order import IngestOrder

LogFormat = Literal[
    "auto",
    "jsonl",
    "csv",
    "tsv",
    "parquet",
    "arrow",
    "aligned",
    "messages",
    "turns",
    "convokit",
    "reddit",
    "twitter",
    "parlai",
]
SourceField = Literal["turns", "utterance", "response", "id", "parent", "root", "text", "speaker", "time", "tags"]
_OF_FILES: Final = ("format", "map", "ids", "context", "encoding", "markup", "on_error", "max_bad_share")


@dataclass(frozen=True, kw_only=True)
class IngestLog(CleaningOptions, Operation):
    """Read dialogue logs in any common format, clean them, and add their pairs to a log.

    Files that are in the log already are passed over, and a run that was stopped goes on where it was.
    """

    operation: ClassVar[str] = "ingest"
    runs: ClassVar[str] = "refaug.service.jobs.kinds.ingesting:ingest_job"
    panel: ClassVar[Panel] = Panel(
        "Input", rare=("ids", "context", "encoding", "on_error", "max_bad_share", "workers", "on", "memory")
    )

    sources: Annotated[
        tuple[Text, ...],
        Argument("SOURCE…"),
        Doc(
            "Files, folders or patterns; .gz, .zst, .bz2 and .xz are unpacked. Of a job: files in inbox/ or a source "
            "folder."
        ),
    ] = ()
    log: Annotated[Name, Doc("Log to add to; made when it is not there.")]
    posted: Annotated[
        bool, NoFlag("a server has what was posted"), Doc("Take the dialogues that were posted to the log.")
    ] = False
    format: Annotated[LogFormat, Metavar("FORMAT"), Doc(f"Format of the files: {', '.join(get_args(LogFormat))}.")] = (
        "auto"
    )
    map: Annotated[
        dict[SourceField, str],
        Length(most=20),
        Metavar("FIELD=COLUMN"),
        Doc("Which column holds a field, such as text=body."),
    ] = field(default_factory=dict)
    ids: Annotated[bool, Doc("Keep the source's dialogue ids, or number dialogues by file and line.")] = True
    context: Annotated[
        tuple[Text, ...], Metavar("SOURCE"), Doc("Message files read only for what others reply to.")
    ] = ()
    encoding: Annotated[str, Length(1, 40), Doc("Text encoding; auto is UTF-8, or what a byte-order mark says.")] = (
        "auto"
    )
    markup: Annotated[
        Literal["auto", "none", "reddit", "slack", "html", "subtitles", "twitter"], Doc("Mark-up to take off.")
    ] = "auto"
    on_error: Annotated[
        Literal["report", "stop"], Doc("report: leave bad rows out and go on; stop: end at the first.")
    ] = "report"
    max_bad_share: Annotated[Share, Doc("Give a source up when more of its rows than this are bad.")] = 0.1
    workers: Annotated[
        int | None,
        Ge(0),
        Le(64),
        Doc("Processes beside this one; by default one a core, of a job one a thread, at most 8; 0: none."),
    ] = None
    on: Annotated[
        Cluster,
        Doc("Read and clean the files on a cluster of Ray: HOST:PORT, auto on one of its machines, or local."),
    ] = None
    memory: Annotated[Memory, Ge(256 << 20)] = MEMORY

    def check(self) -> None:
        """Refuse what has no source or two, and options that do not go with the source."""
        super().check()
        if bool(self.sources) == self.posted:
            raise Usage('either sources, or "posted": true', field="sources")
        default = type(self)(sources=("-",), log=self.log) if self.posted else self
        if of_files := [name for name in _OF_FILES if getattr(self, name) != getattr(default, name)]:
            raise Usage(f"{of_files[0]} is for files; what was posted has one form", field=of_files[0])
        if self.on is not None and (self.posted or self.workers is not None):
            message = "a cluster reads files, and no workers of this machine do: on goes with sources alone"
            raise Usage(message, field="on")

    def order(
        self, *, sources: Sequence[str] | None = None, context: Sequence[str] = (), workers: int | None = None
    ) -> IngestOrder:
        """Return the ingest of files; paths and workers as the face has found them."""
        return replace(
            self.ingest_order(
                self.log, self.sources if sources is None else sources, memory=self.memory, workers=workers
            ),
            format=self.format,
            mapping=dict[str, str](self.map.items()),
            use_ids=self.ids,
            context=tuple(context),
            encoding=self.encoding,
            markup=self.markup,
            stop_on_error=self.on_error == "stop",
            max_bad_share=self.max_bad_share,
        )

    def sources_named(self) -> list[str]:
        """Return the files, also those that are read for what others reply to."""
        return [*self.sources, *self.context]

    def resources(self) -> tuple[str, ...]:
        """Return the log."""
        return (f"log/{self.log}",)


@dataclass(frozen=True, kw_only=True)
class DeletionOptions(Options):
    """What is taken out of a log."""

    log: Annotated[Name, Argument("LOG"), Doc("The log.")]
    dialogues: Annotated[
        tuple[Text, ...], Length(most=100_000), Lines(), Metavar("ID"), Doc("Remove the dialogues with these ids.")
    ] = ()
    speakers: Annotated[
        tuple[Text, ...],
        Length(most=100_000),
        Lines(),
        Metavar("NAME"),
        Doc("Remove all pairs in which these speakers speak."),
    ] = ()
    memory: Memory = MEMORY


@dataclass(frozen=True, kw_only=True)
class Erase(DeletionOptions, Operation):
    """Take dialogues or speakers out of a log for good, and out of all that was made of it."""

    operation: ClassVar[str] = "erase"
    runs: ClassVar[str] = "refaug.service.jobs.kinds.erasing:erase_job"

    compact: Annotated[
        bool,
        Doc(
            "Build the indexes anew, so that their files hold nothing of it; else it is masked in them, and cannot be "
            "found."
        ),
    ] = False
    threads: Threads = None

    def check(self) -> None:
        """Refuse an order that names nothing."""
        if not self.dialogues and not self.speakers:
            raise Usage("nothing is named that should go: dialogues or speakers", field="dialogues")

    def resources(self) -> tuple[str, ...]:
        """Return the log."""
        return (f"log/{self.log}",)


@dataclass(frozen=True, kw_only=True)
class NightLimits(Options):
    """What the new version must keep to; beyond one of them, it is built and not published."""

    recall: Annotated[Share | None, Doc("At least so much of what a search through everything finds.")] = None
    corpus_difference: Annotated[
        Share | None, Doc("At most so far may a corpus score on the set move, up or down.")
    ] = None
    mean_absolute: Annotated[Share | None, Doc("At most so far may the score of a reply move, on average.")] = None
    references_changed: Annotated[
        Share | None, Doc("At most this share of the items may have other references than before.")
    ] = None
    spearman: Annotated[
        float | None, Ge(-1), Le(1), Doc("At least so alike must old and new scores rank the replies.")
    ] = None

    @property
    def stated_limits(self) -> dict[str, float]:
        """The limits by name, without those that there are not."""
        return {name: limit for name, limit in as_values(self).items() if limit is not None}


@dataclass(frozen=True, kw_only=True)
class RunNight(CleaningOptions, Operation):
    """A night: take what was posted, update the index, check it, score a set beside the old version, publish."""

    operation: ClassVar[str] = "nightly"
    runs: ClassVar[str] = "refaug.service.jobs.kinds.nightly:nightly_job"

    log: Annotated[Name, Doc("Log that the new dialogues are added to.")]
    index: Annotated[Name, Doc("Index that is brought up to its logs.")]
    sources: Annotated[
        tuple[Text, ...], Doc("Files and folders in inbox/ to add, besides what was posted to the log.")
    ] = ()
    set: Annotated[
        Annotated[str, Pattern(re.compile("[0-9a-f]{6,16}"), "the id of a set, or its beginning")] | None,
        Doc(
            "Frozen set on which the old and the new version are compared: references of its items are found and "
            "weighed anew with both, with the set's own settings, and the same replies are scored; without it, nothing "
            "is compared."
        ),
    ] = None
    replies: Annotated[
        Text | None,
        Doc(
            "File in inbox/ with replies to items of the set; without it, the gold of each item is the reply, scored "
            "against its references without golds."
        ),
    ] = None
    rater: Annotated[Spec | None, Doc("Rater that weighs; by default the one that weighed the set.")] = None
    metrics: Annotated[tuple[Text, ...], Length(1, 100), Doc("What to compare with.")] = ("upsilon-bleu",)
    limits: Annotated[NightLimits, Doc("What the new version must keep to.")] = NightLimits()
    mode: Annotated[Mode, Doc("The way of searching whose recall is checked.")] = "embedding-utterance"
    check_queries: Annotated[int, Ge(1), Le(100_000), Doc("Utterances on which recall is checked.")] = 200
    seed: Annotated[Seed, Doc("Of the utterances that are drawn for it.")] = 1
    keep: Annotated[int, Ge(1), Le(10_000), Doc("Versions of the index that stay.")] = 2
    workers: Annotated[
        int | None,
        Ge(0),
        Le(64),
        Doc("Processes beside this one for reading; by default one a thread, at most 8."),
    ] = None
    threads: Threads = None
    memory: Memory = MEMORY

    def check(self) -> None:
        """Refuse limits on the scores of a set that is not named."""
        super().check()
        of_set = [name for name in self.limits.stated_limits if name != "recall"]
        if self.replies is not None:
            of_set.append("replies")
        if self.set is None and of_set:
            raise Usage(f"{of_set[0]} is about scores on a frozen set, and none is named", field="set")

    def metrics_named(self) -> list[str]:
        """Return what versions are compared with."""
        return list(self.metrics)

    def sources_named(self) -> list[str]:
        """Return the files of dialogues and of replies."""
        return [*self.sources, *([self.replies] if self.replies is not None else [])]

    def resources(self) -> tuple[str, ...]:
        """Return the log and the index."""
        return (f"log/{self.log}", f"index/{self.index}")
