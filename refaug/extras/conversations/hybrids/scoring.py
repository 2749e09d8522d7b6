"""Scores of conversations by a fitted hybrid, without those that it was fitted to, and the mean of each bot."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from refaug.core.errors import BadInput, Conflict, TrainedOn, Usage
from refaug.core.home import Settings
from refaug.core.progress import Progress
from refaug.extras.conversations.encoders.opening import open_encoders
from refaug.extras.conversations.hybrid_metric.agreement import agreement_of_bots
from refaug.extras.conversations.hybrid_metric.fit import column_means
from refaug.extras.conversations.hybrid_report import hybrid_signature
from refaug.extras.conversations.hybrids.fitting import read_judges
from refaug.extras.conversations.hybrids.stored import StoredHybrid
from refaug.extras.conversations.judged import judge_turns, turn_details
from refaug.extras.conversations.options.hybrid_settings import EncoderRequest
from refaug.extras.conversations.records import Conversation
from refaug.extras.conversations.table import conversation_columns
from refaug.metrics.signature import Signature

Floats = NDArray[np.float64]

HUMAN: Final = "human"
SELF: Final = "self"


@dataclass(frozen=True, kw_only=True, eq=False)
class HybridScores:
    """The scores of conversations in order, and what was left out."""

    hybrid: str  # name@version#content
    signature: Signature
    conversations: Sequence[Conversation]
    scores: Floats
    trained_on: tuple[str, ...]  # ids of conversations that the hybrid was fitted to
    missing: Mapping[str, int]  # column → the conversations that lack it
    left_out: frozenset[str]  # bots that were scored by the fit without them
    rated: Mapping[str, float]  # the mean rating of each bot of the fit

    def bots(self) -> list[Mapping[str, Any]]:
        """Return the mean score of each bot, best first, with the mean that people gave it where it was rated."""
        rows = []
        for bot in dict.fromkeys(talk.bot for talk in self.conversations):
            own = [
                score for talk, score in zip(self.conversations, self.scores.tolist(), strict=True) if talk.bot == bot
            ]
            spread = float(np.std(own, ddof=1) / np.sqrt(len(own))) if len(own) > 1 else None
            rows.append(
                {
                    "bot": bot,
                    "conversations": len(own),
                    "mean": float(np.mean(own)),
                    "standard_error": spread,
                    "fit": "without it" if bot in self.left_out else "all bots",
                    "rated": self.rated.get(bot),
                }
            )
        return sorted(rows, key=lambda row: -row["mean"])

    def agreement(self) -> Mapping[str, Any]:
        """Return the correlation with people's means over the bots that they rated; refused for few of them."""
        rows = [row for row in self.bots() if row["rated"] is not None and row["fit"] == "without it"]
        return asdict(
            agreement_of_bots(
                np.array([row["mean"] for row in rows], np.float64),
                np.array([row["rated"] for row in rows], np.float64),
            )
        )

    def as_json(self) -> Mapping[str, Any]:
        """Return every score, and all means."""
        return {
            "hybrid": self.hybrid,
            "signature": self.signature.short,
            "signature_full": self.signature.full,
            "scored": len(self.scores),
            "trained_on": list(self.trained_on),
            "missing": dict(self.missing),
            "bots": self.bots(),
            "agreement": self.agreement(),
            "conversations": [
                {"id": talk.id, "bot": talk.bot, "score": score}
                for talk, score in zip(self.conversations, self.scores.tolist(), strict=True)
            ],
        }


def encoders_of(
    stored: StoredHybrid, vectors: str | None, sentiment: str | None, meaning: str | None
) -> EncoderRequest:
    """Return the encoders of a hybrid: versions of the home as pinned, and files as they are named now."""
    pinned = stored.manifest["encoders"]
    chosen = {"vectors": vectors, "sentiment": sentiment, "meaning": meaning}
    chosen = {slot: pinned[slot] if spec is None else spec for slot, spec in chosen.items()}
    if lacking := next((slot for slot, spec in chosen.items() if spec is None), None):
        slot = {"vectors": "coh", "sentiment": "sent", "meaning": "sem"}[lacking]
        raise Usage(
            f"{stored.name} was fitted with {stored.details[slot]}, which is a file", remedy=f"name it: --{lacking} …"
        )
    return EncoderRequest(**chosen)  # type: ignore[arg-type]


def score_conversations(
    home: Settings,
    stored: StoredHybrid,
    conversations: Sequence[Conversation],
    encoders: EncoderRequest,
    progress: Progress,
    *,
    threads: int | None = None,
) -> HybridScores:
    """Score conversations by the columns that the hybrid was fitted to.

    Conversations of bots that talk to themselves are compared with each other: their level is not that of people's.
    """
    fresh = [talk for talk in conversations if not stored.was_fitted_to(talk)]
    trained_on = tuple(talk.id for talk in conversations if stored.was_fitted_to(talk))
    if not fresh:
        raise TrainedOn(
            f"{stored.name} was fitted to all {len(conversations):,} conversations", remedy="score other conversations"
        )
    is_played = {talk.is_played for talk in fresh}
    if len(is_played) > 1:
        raise BadInput("conversations with people and self-play at once", remedy="score the two one after the other")
    columns, details = _columns(home, stored, fresh, encoders, progress, threads)
    features = np.stack([columns[name] for name in stored.weights.columns], axis=1)
    missing = np.isnan(features).sum(axis=0).tolist()
    return HybridScores(
        hybrid=stored.spec,
        signature=hybrid_signature(
            stored.settings,
            details,
            conversations=len(fresh),
            play=SELF if True in is_played else HUMAN,
            fitted=stored.spec,
        ),
        conversations=fresh,
        scores=stored.weights.scores(
            features, [talk.bot for talk in fresh], centre=column_means(features) if True in is_played else None
        ),
        trained_on=trained_on,
        missing={name: count for name, count in zip(stored.weights.columns, missing, strict=True) if count},
        left_out=frozenset(stored.weights.without),
        rated={row["bot"]: row["mean"] for row in stored.report["bots"]},
    )


def _columns(
    home: Settings,
    stored: StoredHybrid,
    conversations: Sequence[Conversation],
    encoders: EncoderRequest,
    progress: Progress,
    threads: int | None,
) -> tuple[dict[str, Floats], dict[str, str]]:
    """Return every column, and what it was computed by; Conflict unless that is what the hybrid was fitted with."""
    opened = open_encoders(home, encoders)
    opened.require_language(text for talk in conversations for _, text in talk.turns)
    _require_same(stored, dict(opened.details), stored.details.keys() & opened.details.keys())
    judges = read_judges(home, stored.manifest["turns"], threads)
    judged = judge_turns(home, conversations, judges, progress) if judges is not None else []
    details = {**opened.details, **turn_details(judged)}
    _require_same(stored, details, stored.details.keys())
    return conversation_columns(conversations, opened.reader, stored.settings, progress, judged), details


def _require_same(stored: StoredHybrid, details: Mapping[str, str], slots: Collection[str]) -> None:
    for slot in sorted(slots, key=list(stored.details).index):
        if details.get(slot) != stored.details[slot]:
            raise Conflict(
                f"{stored.name} was fitted with {slot}:{stored.details[slot]}, and here it is "
                f"{details.get(slot, 'none')}",
                remedy="give the file that it was fitted with, or fit it again",
            )
