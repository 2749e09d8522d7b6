"""Adding dialogues to a log."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Annotated, ClassVar, Final, Literal, get_args

from refaug.core.errors import Usage
from refaug.core.options.declaring import Argument, Doc, Ge, Le, Length, Metavar, NoFlag, Panel
from refaug.operations.logs.cleaning_options import CleaningOptions
from refaug.operations.operation import MEMORY, Cluster, Memory, Name, Operation, Share, Text

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
        Doc("Where a field is in the source, e.g. text in body."),
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
