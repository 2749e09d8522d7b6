"""What commands about whole conversations read: a file of conversations or self-play, and files of encoders."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from refaug.cli.shared.item_inputs import shown_name
from refaug.cli.shared.output import file_or_stdin

if TYPE_CHECKING:
    from refaug.core.home import Settings
    from refaug.core.progress import Progress
    from refaug.extras.conversations.options.conversation_source import ConversationSource
    from refaug.extras.conversations.records import Conversation


@dataclass(frozen=True, kw_only=True)
class FittedFiles:
    """The files that a hybrid was fitted with, which are not stored; a group of options."""

    vectors: Annotated[
        str | None, typer.Option(help="The file of the word vectors, if it was fitted with one.", metavar="FILE")
    ] = None
    sentiment: Annotated[
        str | None, typer.Option(help="The same lexicon or DeepMoji, if it was fitted with one.", metavar="KIND:PATH")
    ] = None
    meaning: Annotated[
        str | None, typer.Option(help="The same model of meaning, if it was fitted with one.", metavar="KIND:PATH")
    ] = None


def read_conversations(home: Settings, source: ConversationSource, progress: Progress) -> list[Conversation]:
    """Return the conversations that a command names, without those of some bots.

    Lines that hold none are reported and left out.
    """
    from refaug.extras.conversations.talks import read_talks  # noqa: PLC0415  numpy
    from refaug.scoring.item_files.item_files import InputFile  # noqa: PLC0415

    with ExitStack() as stack:
        path, file = Path(source.conversations), None
        if source.self_play is None:
            file = InputFile(path=stack.enter_context(file_or_stdin(path)), name=shown_name(path))
        return read_talks(home, source, file, progress)
