"""What becomes of an item that a bot has no reply to: an option of the command and of requests."""

from __future__ import annotations

from enum import StrEnum


class WithoutReply(StrEnum):
    """Write it without that reply and warn, refuse it, or leave it out and warn."""

    REPORT = "report"
    REFUSE = "refuse"
    SKIP = "skip"
