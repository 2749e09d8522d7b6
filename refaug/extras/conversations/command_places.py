"""The commands of conversations."""

from __future__ import annotations

from typing import Final

from refaug.cli.shared.command_place import CommandPlace

CONVERSATIONS: Final = CommandPlace(
    at="refaug.extras.conversations.commands.judging:app",
    help="Whole conversations: judge them turn by turn.",
)
HYBRID: Final = CommandPlace(
    at="refaug.extras.conversations.commands.hybrid:app",
    help="The hybrid metric of whole conversations, beside what it has to be better than.",
    inner={
        "fit": "refaug.extras.conversations.commands.hybrid:fit_command",
        "score": "refaug.extras.conversations.commands.hybrid:score_command",
    },
)
SELFPLAY: Final = CommandPlace(
    at="refaug.extras.conversations.commands.selfplay:app",
    help="Let bots talk to themselves or to a partner, and count what their conversations share.",
)
