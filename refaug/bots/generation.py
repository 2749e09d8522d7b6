"""A bot that writes its replies with a VHRED, from all turns of the dialogue that the network reads.

Greedy and beam search are the same in every run; sampling draws from the seed and the turns alone, so ids and the order
of requests do not matter.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Self

from refaug.bots.replier import BotReply, Replier, ReplyRequest
from refaug.bots.specification import BotSpecification
from refaug.core.errors import BadInput, Usage
from refaug.rater.adem.vhred.sizes import (
    CHOICES,
    HELD,
    METHODS,
    MOST_BEAMS,
    MOST_CANDIDATES,
    MOST_PIECES,
    GenerationSettings,
)

if TYPE_CHECKING:
    from refaug.rater.adem.vhred.artefact import Vhred

KIND: Final = "vhred"
CONVERSATION: Final = "conversation"
KEYS: Final[Mapping[str, str]] = {
    "method": f"{', '.join(METHODS)}; without it {GenerationSettings.method}",
    "beams": f"width of beam search, 1 to {MOST_BEAMS}; without it {GenerationSettings.beams}",
    "choice": f"among the replies of beam search, {', '.join(CHOICES)}; without it {GenerationSettings.choice}",
    "temperature": "of sampling, above 0 and at most 10; without it 1",
    "top-k": "the likeliest pieces that are sampled from; without it all",
    "max-tokens": f"pieces of a reply, 1 to {MOST_PIECES}; without it {GenerationSettings.max_tokens}",
    CONVERSATION: f"of a VHCR, {' or '.join(HELD)}; without it {GenerationSettings.conversation}",
}
NO_UTTERANCE: Final = "no_utterance"
NOTHING_GENERATED: Final = "nothing_generated"
_ONLY_WITH: Final = {"beams": "beam", "choice": "beam", "temperature": "sample", "top-k": "sample"}


def generation_settings(specification: BotSpecification) -> GenerationSettings:
    """Return how a specification lets replies be written; Usage for a key that its method does not use."""
    method = specification.text("method") or GenerationSettings.method
    for key, owner in _ONLY_WITH.items():
        if specification.text(key) is not None and method != owner:
            raise Usage(f"{specification}: {key} has no effect with method={method}", remedy=f"method={owner}")
    try:
        return GenerationSettings(
            method=method,  # type: ignore[arg-type]
            beams=specification.whole_number("beams", GenerationSettings.beams, least=1, most=MOST_BEAMS),
            choice=specification.text("choice") or GenerationSettings.choice,  # type: ignore[arg-type]
            temperature=_temperature(specification),
            top_k=specification.whole_number("top-k", 0, least=1, most=MOST_CANDIDATES),
            max_tokens=specification.whole_number(
                "max-tokens", GenerationSettings.max_tokens, least=1, most=MOST_PIECES
            ),
            conversation=specification.text(CONVERSATION) or GenerationSettings.conversation,  # type: ignore[arg-type]
        )
    except Usage as error:
        raise Usage(
            f"{specification}: {error.message.removeprefix(f'{specification}: ')}", remedy=error.remedy
        ) from error


def _temperature(specification: BotSpecification) -> float:
    text = specification.text("temperature")
    if text is None:
        return GenerationSettings.temperature
    digits = text.replace(".", "", 1)
    if not (digits.isascii() and digits.isdigit() and len(text) <= 10):
        raise Usage(f"{specification}: temperature={text}", remedy="a number such as 0.8")
    return float(text)


@dataclass(frozen=True, eq=False, kw_only=True)
class GeneratingBot(Replier):
    """A bot that writes its replies with an opened VHRED."""

    vhred: Vhred
    settings: GenerationSettings

    @classmethod
    def of(cls, specification: BotSpecification, vhred: Vhred) -> Self:
        """Return the bot of a specification; BadInput for a network that was never trained."""
        if not vhred.config.is_trained:
            raise BadInput(
                f"{specification}: the vhred {vhred.spec} was never trained, and would write noise",
                remedy="name one that was pre-trained: refaug artefacts list vhred",
            )
        if specification.text(CONVERSATION) is not None and not vhred.config.conversation:
            raise Usage(
                f"{specification}: {vhred.spec} has no variable of the conversation",
                remedy=f"leave {CONVERSATION} out, or name a VHCR",
            )
        return cls(vhred=vhred, settings=generation_settings(specification))

    @property
    def provenance(self) -> Mapping[str, str]:
        """The VHRED with its version and hash, and how replies are written."""
        settings = self.settings
        fields = {"kind": KIND, "vhred": self.vhred.spec, "method": settings.method}
        if settings.method == "beam":
            fields["beams"] = str(settings.beams)
            if settings.choice != GenerationSettings.choice:
                fields["choice"] = settings.choice
        if settings.method == "sample":
            fields |= {"temperature": f"{settings.temperature:g}", "top-k": str(settings.top_k)}
        if self.vhred.config.conversation:
            fields[CONVERSATION] = settings.conversation
        return {**fields, "max-tokens": str(settings.max_tokens)}

    @property
    def is_random(self) -> bool:
        """Whether replies are sampled, or drawn among those of beam search."""
        return self.settings.is_random

    def replies(self, requests: Sequence[ReplyRequest]) -> list[BotReply]:
        """Write all replies, in batches."""
        turns = [tuple(turn for turn in request.item.turns if turn.strip()) for request in requests]
        answered = [at for at, request in enumerate(requests) if (request.item.utterance or "").strip()]
        texts = self.vhred.generate(
            [turns[at] for at in answered],
            self.settings,
            [_seed(requests[at].seed, turns[at]) for at in answered],
            [_held(requests[at], turns[at][: len(turns[at]) % 2]) for at in answered],  # none where the bot began
        )
        replies = [BotReply(text=None, problem=NO_UTTERANCE) for _ in requests]
        for at, text in zip(answered, texts, strict=True):
            replies[at] = _or_nothing(text)
        return replies

    def openings(self, requests: Sequence[ReplyRequest]) -> list[BotReply]:
        """Write what dialogues begin with: replies to the end of a turn alone."""
        seeds, held = [_seed(each.seed, ()) for each in requests], [_held(each, ()) for each in requests]
        texts = self.vhred.generate([()] * len(requests), self.settings, seeds, held)
        return list(map(_or_nothing, texts))


def _or_nothing(text: str) -> BotReply:
    return BotReply(text=text) if text.strip() else BotReply(text=None, problem=NOTHING_GENERATED)


def _held(request: ReplyRequest, first: Sequence[str]) -> tuple[Sequence[str], int]:
    """Return what a conversation's variable is held by: the turn before the bot's first, and a seed."""
    begun = request.begun or (first, request.seed)
    return begun[0], _seed(begun[1], begun[0])


def _seed(seed: int, turns: Sequence[str]) -> int:
    """Return the seed of one reply, from the bot's seed and the dialogue."""
    return int.from_bytes(hashlib.sha256(json.dumps([seed, turns]).encode()).digest()[:8], "big")
