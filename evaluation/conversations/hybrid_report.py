"""How far the hybrid metric agrees with people on bots that its fit has not seen, beside what it has to be better than.

Two sets of columns are fitted: the eleven components of Ghandeharioun et al. with the encoders at hand, and these with
plain counts beside them (`wide`). Every count is also fitted alone: the trivial predictors of the same ratings.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from refaug.core.errors import BadInput
from refaug.core.progress import Progress
from refaug.evaluation.conversations.reading import require_one_scale
from refaug.evaluation.conversations.records import Conversation
from refaug.evaluation.conversations.text_readers import SentimentReader, VectorReader
from refaug.metrics.conversations.components import COMPONENTS, Variants, component_values
from refaug.metrics.conversations.exchanges import Side, human_exchanges
from refaug.metrics.conversations.variety import variety
from refaug.metrics.hybrid.agreement import agreement_of_bots, within_bots
from refaug.metrics.hybrid.controls import permuted_bots, shuffled_ratings
from refaug.metrics.hybrid.fit import Intercept, bot_means, leave_one_bot_out, predict_conversations
from refaug.metrics.hybrid.resampled import ResampledCorrelations, resampled_correlations
from refaug.metrics.signature import Signature

Floats = NDArray[np.float64]

COUNTS: Final = ("log-turns", "words-of-person", "words-of-bot", "repeated-replies", "distinct-2")
HYBRID: Final = "hybrid"
WIDE: Final = "wide"
_LEAST_CONVERSATIONS: Final = 50
_ALPHA: Final = 0.05


@dataclass(frozen=True, kw_only=True)
class HybridSettings:
    """How the metric is fitted and tested."""

    variants: Variants = field(default_factory=Variants)
    target: str | None = None  # a question; None is the mean over all
    penalty: float = 0.0
    draws: int = 1000
    seed: int = 1


@dataclass(frozen=True, eq=False)
class ConversationTable:
    """Columns of conversations with their ratings and bots."""

    columns: Mapping[str, Floats]
    ratings: Floats
    bots: NDArray[np.int64]
    names: tuple[str, ...]  # of the bots, by number
    unrated: int  # conversations without an answer to the question, which are left out

    def matrix(self, names: Sequence[str]) -> Floats:
        """Return some columns side by side, (conversations, columns)."""
        return np.stack([self.columns[name] for name in names], axis=1)


def conversation_table(
    conversations: Sequence[Conversation], reader: VectorReader, settings: HybridSettings, progress: Progress
) -> ConversationTable:
    """Compute the components and counts of each rated conversation."""
    require_one_scale(conversations)
    answers = [conversation.rating(settings.target) for conversation in conversations]
    rated = [
        (conversation, answer)
        for conversation, answer in zip(conversations, answers, strict=True)
        if answer is not None
    ]
    if len(rated) < _LEAST_CONVERSATIONS:
        questions = ", ".join(sorted({question for talk in conversations for question in talk.ratings})) or "none"
        raise BadInput(
            f"{len(rated):,} of {len(conversations):,} conversations have a rating"
            f"{f' called {settings.target!r}' if settings.target else ''}; at least {_LEAST_CONVERSATIONS} are needed",
            remedy=f"the questions of the file are: {questions}",
        )
    names = tuple(sorted({conversation.bot for conversation, _ in rated}))
    number_of = {name: number for number, name in enumerate(names)}
    rows = []
    progress.stage("components", len(rated), unit="conversations")
    for conversation, _ in rated:
        rows.append(_row(conversation, reader, settings.variants))
        progress.advance(1)
    return ConversationTable(
        columns={name: np.array([row[name] for row in rows]) for name in (*COMPONENTS, *COUNTS)},
        ratings=np.array([answer for _, answer in rated]),
        bots=np.array([number_of[conversation.bot] for conversation, _ in rated], np.int64),
        names=names,
        unrated=len(conversations) - len(rated),
    )


def _row(conversation: Conversation, reader: VectorReader, variants: Variants) -> dict[str, float]:
    exchanges = human_exchanges(conversation.turns)
    of_bot = [text for side, text in conversation.turns if side is Side.BOT]
    of_person = [text for side, text in conversation.turns if side is Side.PERSON]
    figures = variety(of_bot, [reader.tokens(text) for text in of_bot])
    return {
        **component_values(exchanges, reader, variants),
        "log-turns": math.log(len(conversation.turns)),
        "words-of-person": sum(len(text.split()) for text in of_person) / len(of_person),
        "words-of-bot": sum(len(text.split()) for text in of_bot) / len(of_bot),
        "repeated-replies": figures.repeated,
        "distinct-2": figures.distinct_2,
    }


def hybrid_report(table: ConversationTable, settings: HybridSettings, details: Mapping[str, str]) -> dict[str, Any]:
    """Fit with one bot left out, and return the figures with every control beside them.

    `details` are the encoders, as the signature names them.
    """
    used = [name for name in COMPONENTS if not np.isnan(table.columns[name]).all()]
    sets = {HYBRID: used, WIDE: [*used, *COUNTS], **{name: [name] for name in COUNTS}}
    drawn = resampled_correlations(
        {name: table.matrix(columns) for name, columns in sets.items()},
        table.ratings,
        table.bots,
        penalty=settings.penalty,
        draws=settings.draws,
        seed=settings.seed,
    )
    means = bot_means(table.ratings, table.bots)
    report: dict[str, Any] = {
        "signature": _signature(table, settings, details).short,
        "signature_full": _signature(table, settings, details).full,
        "conversations": len(table.ratings),
        "unrated": table.unrated,
        "bots": _bots(table, means),
        "missing": {name: int(np.isnan(table.columns[name]).sum()) for name in COMPONENTS},
        "intercept_only": _intercept_only(table, means),
        "sets": {name: _set_figures(table, means, name, columns, drawn, settings) for name, columns in sets.items()},
        "alone": {
            name: asdict(agreement_of_bots(bot_means(table.columns[name], table.bots), means))
            for name in (*used, *COUNTS)
        },
    }
    report["against_counts"] = {name: _against_counts(report["sets"], name, drawn) for name in (HYBRID, WIDE)}
    return report


def _signature(table: ConversationTable, settings: HybridSettings, details: Mapping[str, str]) -> Signature:
    variants = settings.variants
    return Signature(
        metric="mh",
        settings={
            **details,
            "grd": variants.greedy,
            "ques": variants.questions,
            "laugh": variants.laughter,
            "slope": variants.slope,
            "agg": "mean",
            "z": "train",
            "fit": f"ridge[{settings.penalty:g}]" if settings.penalty else "ols",
            "icpt": "common",
            "target": settings.target or "mean",
            "holdout": "bot",
            "play": "human",
            "n": str(len(table.ratings)),
        },
        details={"seed": str(settings.seed), "draws": str(settings.draws)},
    )


def _bots(table: ConversationTable, means: Floats) -> list[dict[str, Any]]:
    counts = Counter(table.bots.tolist())
    return [
        {"bot": name, "conversations": counts[number], "mean": float(means[number])}
        for number, name in enumerate(table.names)
    ]


def _set_figures(
    table: ConversationTable,
    means: Floats,
    name: str,
    columns: Sequence[str],
    drawn: ResampledCorrelations,
    settings: HybridSettings,
) -> dict[str, Any]:
    """Return the figures of one set of columns."""
    features = table.matrix(columns)
    intercepts: tuple[Intercept, ...] = ("common", "fold")
    fits = {
        intercept: leave_one_bot_out(features, table.ratings, table.bots, intercept=intercept, penalty=settings.penalty)
        for intercept in intercepts
    }
    fit = fits["common"]
    predictions = fit.predictions(table.ratings)
    agreement = {
        intercept: asdict(agreement_of_bots(fits[intercept].predictions(table.ratings), means)) for intercept in fits
    }
    pearson = agreement["common"]["pearson"]
    shuffled = shuffled_ratings(fit, table.ratings, table.bots, draws=settings.draws, seed=settings.seed)
    permuted = permuted_bots(predictions, means, seed=settings.seed)
    is_shown = pearson is not None and not shuffled.contains(pearson) and permuted.p <= _ALPHA
    conversations = predict_conversations(features, table.ratings, table.bots, settings.penalty)
    return {
        "columns": list(columns),
        "agreement": agreement,
        "interval": asdict(drawn.interval(name)),
        "shuffled_ratings": asdict(shuffled),
        "permuted_bots": asdict(permuted),
        "is_shown": is_shown,
        "within_bots": within_bots(conversations, table.ratings, table.bots),
        "condition": float(fit.conditions.max()),
        "predictions": dict(zip(table.names, predictions.tolist(), strict=True)),
        "coefficients": {
            column: {"mean": float(values.mean()), "least": float(values.min()), "most": float(values.max())}
            for column, values in zip(columns, fit.coefficients.T, strict=True)
        },
    }


def _intercept_only(table: ConversationTable, means: Floats) -> dict[str, Any]:
    """Return what the published intercept alone gives: it falls as the bot's own mean rises."""
    fit = leave_one_bot_out(np.zeros((len(table.ratings), 1)), table.ratings, table.bots, intercept="fold")
    return asdict(agreement_of_bots(fit.predictions(table.ratings), means))


def _against_counts(sets: Mapping[str, Any], name: str, drawn: ResampledCorrelations) -> dict[str, Any]:
    """Compare a set with the count that agrees best, by the draws that both were fitted to."""
    values = {count: sets[count]["agreement"]["common"]["pearson"] for count in COUNTS}
    best = max(COUNTS, key=lambda count: -2.0 if values[count] is None else values[count])
    pearson = sets[name]["agreement"]["common"]["pearson"]
    if pearson is None or values[best] is None:
        return {"count": best, "difference": None, "interval": None, "is_shown": False}
    interval = drawn.difference(name, best)
    return {
        "count": best,
        "difference": pearson - values[best],
        "interval": asdict(interval),
        "is_shown": interval.draws > 0 and interval.low > 0,
    }


def reader_details(vectors_name: str, sentiment: SentimentReader | None) -> dict[str, str]:
    """Return the encoders as signatures name them."""
    return {
        "sent": "none" if sentiment is None else sentiment.name,
        "sem": f"mean[{vectors_name}]",
        "coh": f"[{vectors_name}]",
    }
