"""A bot that is worse on purpose: words of another bot's replies are replaced by words of random replies.

A participant who rates it no lower than the bot that it wraps has not read the replies.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from refaug.bots.replier import BotReply, Replier, ReplyRequest, openings_of
from refaug.bots.stored.seeded_draws import draw_place


@dataclass(frozen=True, eq=False, kw_only=True)
class DegradedBot:
    """A bot that replaces a run of words in each reply by as many words of a reply drawn from a pool."""

    spec: str
    inner: Replier
    share: float
    pool: tuple[str, ...]

    @property
    def provenance(self) -> Mapping[str, str]:
        """The bot that it wraps, and how much is replaced."""
        inner = ",".join(f"{key}={text}" for key, text in self.inner.provenance.items())
        return {"kind": "degraded", "bot": self.spec, "share": f"{self.share:g}", "of": inner}

    @property
    def is_random(self) -> bool:
        """Yes: the words and their place are drawn."""
        return True

    @property
    def warnings(self) -> Sequence[str]:
        """That it is worse on purpose, and what is to know of the bot that it wraps."""
        return ("its replies are spoilt on purpose", *self.inner.warnings)

    @property
    def remarks(self) -> Sequence[str]:
        """What the replies of the wrapped bot cost."""
        return self.inner.remarks

    def replies(self, requests: Sequence[ReplyRequest]) -> list[BotReply]:
        """Return the spoilt replies; a reply that is missing stays so."""
        return self._spoilt(requests, self.inner.replies(requests))

    def openings(self, requests: Sequence[ReplyRequest]) -> list[BotReply]:
        """Return what the wrapped bot begins dialogues with, spoilt as its replies are."""
        return self._spoilt(requests, openings_of(self.inner, requests))

    def _spoilt(self, requests: Sequence[ReplyRequest], replies: Sequence[BotReply]) -> list[BotReply]:
        return [
            reply if reply.text is None else replace(reply, text=self._spoil(reply.text, request))
            for request, reply in zip(requests, replies, strict=True)
        ]

    def _spoil(self, text: str, request: ReplyRequest) -> str:
        words, drawn_from = text.split(), [request.seed, list(request.item.turns), text]
        count = min(len(words), max(1, round(self.share * len(words))))
        begin = draw_place(len(words) - count + 1, *drawn_from, "place")
        strange = list[str]()
        step = 0
        while len(strange) < count:
            strange += self._words(text, [*drawn_from, step], count - len(strange))
            step += 1
        return " ".join([*words[:begin], *strange, *words[begin + count :]])

    def _words(self, text: str, drawn_from: Sequence[object], most: int) -> list[str]:
        """Return up to `most` words in a row of a random reply, which is another one than the text where possible."""
        texts = [other for other in self.pool if other != text] or list(self.pool)
        words = texts[draw_place(len(texts), *drawn_from, "reply")].split()
        begin = draw_place(max(1, len(words) - most + 1), *drawn_from, "words")
        return words[begin : begin + most]
