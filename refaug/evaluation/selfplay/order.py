"""What is to be played: which bots, with whom, from which starts, and by which rules."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from refaug.bots.replier import Replier
from refaug.bots.selfplay_rules import SelfPlayRules
from refaug.core.errors import Usage
from refaug.evaluation.selfplay.starts import SelfPlayStarts


@dataclass(frozen=True, kw_only=True)
class PlayingBot:
    """An opened bot with the name that the conversations have for it."""

    name: str
    replier: Replier

    def as_json(self) -> dict[str, object]:
        """Return the bot as manifests describe it."""
        return {"name": self.name, "provenance": dict(self.replier.provenance)}


@dataclass(frozen=True, kw_only=True)
class SelfPlayOrder:
    """What is to be played: each bot has one conversation for each start; without a partner it talks to itself."""

    bots: Sequence[PlayingBot]
    partner: PlayingBot | None
    start: str  # as it was written
    starts: SelfPlayStarts
    rules: SelfPlayRules

    def __post_init__(self) -> None:
        """Require bots, each once."""
        names = [bot.name for bot in self.bots]
        if not names:
            raise Usage("no bot is to play", remedy="name one or several")
        if twice := next((name for name in names if names.count(name) > 1), None):
            raise Usage(f"{twice} comes twice", remedy="name each bot once")

    def plan(self) -> dict[str, object]:
        """Return everything that the bytes of the conversations depend on."""
        rules = self.rules
        return {
            "bots": [bot.as_json() for bot in self.bots],
            "partner": self.partner.as_json() if self.partner else None,
            "start": self.start,
            "starts_sha256": self.starts.sha256,
            "conversations_per_bot": len(self.starts),
            "turns": rules.turns,
            "context": rules.context,
            "rules": rules.rules,
            "seed": rules.seed,
        }

    def bot_at(self, place: int) -> tuple[PlayingBot, PlayingBot]:
        """Return the bot of a conversation and its partner, by the place among the conversations of all bots."""
        bot = self.bots[place // len(self.starts)]
        return bot, self.partner or bot
