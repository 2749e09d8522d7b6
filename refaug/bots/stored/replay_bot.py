"""A bot with fixed replies, for tests and rehearsals."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from refaug.bots.replier import BotReply, ReplyRequest
from refaug.bots.stored.seeded_draws import draw_place

NO_MORE_REPLIES: Final = "no_more_replies"
NO_UTTERANCE: Final = "no_utterance"


@dataclass(frozen=True, eq=False, kw_only=True)
class ReplayBot:
    """A bot whose n-th reply in a dialogue is the n-th of a list, or is drawn from the list."""

    spec: str
    texts: tuple[str, ...]
    draws: bool = False
    cycles: bool = False

    @property
    def provenance(self) -> Mapping[str, str]:
        """The name with its hash, which covers the list."""
        return {"kind": "replay", "bot": self.spec}

    @property
    def is_random(self) -> bool:
        """Whether replies are drawn."""
        return self.draws

    @property
    def warnings(self) -> Sequence[str]:
        """That the replies do not depend on the dialogue."""
        return ("its replies are a fixed list, whatever is said",)

    @property
    def remarks(self) -> Sequence[str]:
        """Nothing: replies cost nothing."""
        return ()

    def replies(self, requests: Sequence[ReplyRequest]) -> list[BotReply]:
        """Return the reply to each dialogue."""
        return [self._reply(request) for request in requests]

    def openings(self, requests: Sequence[ReplyRequest]) -> list[BotReply]:
        """Return the first reply, or a drawn one."""
        return [
            BotReply(text=self.texts[draw_place(len(self.texts), request.seed, []) if self.draws else 0])
            for request in requests
        ]

    def _reply(self, request: ReplyRequest) -> BotReply:
        turns = request.item.turns
        if not turns or not turns[-1].strip():
            return BotReply(text=None, problem=NO_UTTERANCE)
        if self.draws:
            return BotReply(text=self.texts[draw_place(len(self.texts), request.seed, list(turns))])
        own_turns = len(turns) // 2 if request.own is None else len(request.own)
        if own_turns >= len(self.texts) and not self.cycles:
            return BotReply(text=None, problem=NO_MORE_REPLIES)
        return BotReply(text=self.texts[own_turns % len(self.texts)])
