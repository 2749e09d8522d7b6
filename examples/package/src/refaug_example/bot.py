"""A kind of bot: it says the last words of what was said back, after words of its own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from refaug.bots.kinds import BotKind, BotSources
from refaug.bots.replier import BotReply, Replier, ReplyRequest
from refaug.bots.specification import BotSpecification


@dataclass(frozen=True, kw_only=True)
class EchoBot(Replier):
    """A bot that replies `WORDS`, and the last words of the utterance."""

    begin: str
    words: int

    @property
    def provenance(self) -> Mapping[str, str]:
        """What makes the replies; refaug adds the kind, the package and its version."""
        return {"begin": self.begin, "words": str(self.words)}

    def replies(self, requests: Sequence[ReplyRequest]) -> list[BotReply]:
        """Return the reply to each dialogue."""
        return [self._reply((request.item.utterance or "").split()) for request in requests]

    def _reply(self, said: Sequence[str]) -> BotReply:
        if not said:
            return BotReply(text=None, problem="no_utterance")
        return BotReply(text=" ".join([self.begin, *said[-self.words :]]))


def words_of(specification: BotSpecification) -> int:
    """Return how many words are said back."""
    return specification.whole_number("words", 3, least=1, most=100)


def open_echo(specification: BotSpecification, _sources: BotSources) -> Replier:
    """Open the bot of a checked specification."""
    return EchoBot(begin=specification.source, words=words_of(specification))


ECHO = BotKind(
    source="WORDS",
    keys={"words": "of the utterance that are said back, 1 to 100; without it 3"},
    repeated_keys=(),
    check=words_of,
    open=open_echo,
    artefact=None,
)
