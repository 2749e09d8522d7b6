"""The parts of requests, for type checkers: plain dicts with these keys, or any other mappings.

The server checks them, and says which field of which item is wrong (`error.errors`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal, Optional, TypedDict, Union

from .models.base import Model

Purpose = Literal["train", "validation", "test"]
ArtefactKind = Literal[
    "adem", "encoder", "hybrid", "index", "judge-fit", "passport", "rater", "ruber", "self-play", "vectors", "vhred"
]
OnError = Literal["fail", "report"]
From = Literal["find", "given"]
WithoutReply = Literal["report", "refuse", "skip"]
Items = Iterable[Union[Mapping[str, Any], Model]]
Dialogues = Iterable[Union[Mapping[str, Any], Sequence[str]]]
Metrics = Union[str, Sequence[str], None]
Replies = Union[Iterable[Optional[str]], Mapping[str, Iterable[Optional[str]]]]


class ReferenceText(TypedDict, total=False):
    """A reference with its attributes; a bare text is a gold."""

    text: str
    source: Literal["gold", "parrot", "retrieved", "supplied"]
    weight: float  # what a match with it is worth, from -1 to 1
    ratings: Sequence[float]  # of people; `scale` says between which numbers
    scale: Sequence[float]
    unused: bool  # True: a gold that weighted scores leave out, as the server wrote it


class Item(TypedDict, total=False):
    """A test pair with the replies of some systems."""

    id: str
    utterance: str
    turns: Sequence[str]  # the dialogue so far, instead; the last one is the utterance
    references: Sequence[Union[str, ReferenceText]]
    replies: Mapping[str, str]  # one of each system, by its name
    dialogue: str  # the dialogue that it comes from, of which nothing is retrieved
    time: str
    exclude: Sequence[str]
    ratings: Mapping[str, Sequence[Optional[float]]]
    provenance: str  # how its references were made, as the server wrote it; signatures have it
    reply_provenance: Mapping[str, str]  # by system: which bot made its reply, as the server wrote it


class Candidate(TypedDict, total=False):
    """A text to be rated, and the utterance it answers where that is not the pair's."""

    text: str
    utterance: str


class Pair(TypedDict):
    """A test pair, and the texts to be rated against it."""

    utterance: str
    golds: Sequence[str]
    candidates: Sequence[Union[str, Candidate]]


class Turn(TypedDict, total=False):
    """One speaker's turn."""

    text: str
    speaker: Union[str, int, None]
    time: Union[str, float, None]


class Dialogue(TypedDict, total=False):
    """A whole dialogue for a log."""

    id: Union[str, int, None]
    turns: Sequence[Union[str, Turn]]
    tags: Union[str, Sequence[str], None]
