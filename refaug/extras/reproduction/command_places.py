"""The command of the reproduction."""

from __future__ import annotations

from typing import Final

from refaug.cli.shared.command_place import CommandPlace

REPRODUCE: Final = CommandPlace(
    at="refaug.extras.reproduction.command:reproduce_command",
    help="Measure what the method is worth: from logs and rated replies to tables, JSON, and a page with plots.",
)
