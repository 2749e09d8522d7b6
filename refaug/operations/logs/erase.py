"""Erasing dialogues and speakers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar

from refaug.core.errors import Usage
from refaug.core.options.declaring import Argument, Doc, Length, Lines, Metavar
from refaug.core.options.decoding import Options
from refaug.operations.operation import MEMORY, Memory, Name, Operation, Text, Threads


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
