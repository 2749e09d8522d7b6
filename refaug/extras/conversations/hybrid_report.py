"""How far the hybrid metric agrees with people on bots that its fit has not seen, beside what it has to be better than.

Two sets of columns are fitted: the eleven components of Ghandeharioun et al. with the encoders at hand, and these with
plain counts and mean scores of turns beside them (`wide`). Every count, every metric of turns, and the votes of people
on replies, are also fitted alone: the trivial predictors of the same ratings.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from refaug.core.errors import Usage
from refaug.extras.conversations.hybrid_metric.agreement import LEAST_BOTS, BotAgreement, agreement_of_bots, within_bots
from refaug.extras.conversations.hybrid_metric.controls import (
    Interval,
    ResampledCorrelations,
    permuted_bots,
    resampled_correlations,
    shuffled_in_folds,
    shuffled_ratings,
)
from refaug.extras.conversations.hybrid_metric.encoders import NEWS
from refaug.extras.conversations.hybrid_metric.fit import (
    Fit,
    Intercept,
    bot_means,
    leave_one_bot_out,
    predict_conversations,
)
from refaug.extras.conversations.metrics.components import COMPONENTS
from refaug.extras.conversations.options import PAPER, HybridSettings
from refaug.extras.conversations.table import COUNTS, ConversationTable
from refaug.metrics.signature import Signature

Floats = NDArray[np.float64]

HYBRID: Final = "hybrid"
WIDE: Final = "wide"
JUDGED: Final = "judged"
BASELINES: Final = ("log-turns", "words-of-person", "repeated-replies")  # the plain counts that a set has to beat
OURS: Final = "hybrid (refaug)"
_PAPER_ENCODERS: Final = {"sent": "deepmoji", "sem": "infersent1", "coh": NEWS}
_ALPHA: Final = 0.05


def require_paper(details: Mapping[str, str], settings: HybridSettings) -> None:
    """Raise Usage unless the encoders are those of the paper, whose label no other figure has."""
    needs = _PAPER_ENCODERS if settings.is_paper else {}
    if wrong := [
        f"{slot}:{need} (here {details[slot]})" for slot, need in needs.items() if _kind(details[slot]) != need
    ]:
        raise Usage(
            f"{PAPER} is the label of the paper, and needs {', '.join(wrong)}",
            remedy=f"--sentiment deepmoji:FOLDER --meaning infersent1:FOLDER --vectors {NEWS}; or leave the label out",
        )


def _kind(name: str) -> str:
    return name.partition("[")[0]


def hybrid_report(table: ConversationTable, settings: HybridSettings, details: Mapping[str, str]) -> dict[str, Any]:
    """Fit with one bot left out, and return the figures with every control beside them.

    `details` are the encoders, as the signature names them.
    """
    require_paper(details, settings)
    alone = (*COUNTS, *table.votes, *table.judged)
    sets = {
        HYBRID: table.components,
        WIDE: table.wide,
        **({JUDGED: list(table.judged)} if len(table.judged) > 1 else {}),
        **{name: [name] for name in alone},
    }
    drawn = _drawn(table, sets, settings)
    means = bot_means(table.ratings, table.bots)
    by_name = {**{name: table.columns[name] for name in (*table.components, *alone)}, **table.courses}
    signature = hybrid_signature(settings, details, conversations=len(table.ratings))
    report: dict[str, Any] = {
        "name": PAPER if settings.is_paper else OURS,
        "intercept": settings.intercept,
        "signature": signature.short,
        "signature_full": signature.full,
        "conversations": len(table.ratings),
        "unrated": table.unrated,
        "few_ratings": table.few_ratings,
        "bots": _bots(table, means),
        "missing": {
            name: int(np.isnan(table.columns[name]).sum()) for name in (*COMPONENTS, *table.votes, *table.judged)
        },
        "intercept_only": _intercept_only(table, means),
        "sets": {name: _set_figures(table, means, name, columns, drawn, settings) for name, columns in sets.items()},
        "alone": {
            name: asdict(_agreement_alone(bot_means(column, table.bots), means)) for name, column in by_name.items()
        },
        "within_alone": {name: _within(column, table) for name, column in by_name.items()},
    }
    report["against_counts"] = {
        name: _against_counts(report["sets"], name, drawn, settings.intercept) for name in (HYBRID, WIDE)
    }
    return report


def _drawn(
    table: ConversationTable, sets: Mapping[str, Sequence[str]], settings: HybridSettings
) -> ResampledCorrelations | None:
    """Return the correlations over drawn bots; None where there are too few bots for any correlation over them."""
    if len(table.names) < LEAST_BOTS:
        return None
    return resampled_correlations(
        {name: table.matrix(columns) for name, columns in sets.items()},
        table.ratings,
        table.bots,
        intercept=settings.intercept,
        penalty=settings.ridge,
        draws=settings.draws,
        seed=settings.seed,
    )


def hybrid_signature(
    settings: HybridSettings,
    details: Mapping[str, str],
    *,
    conversations: int,
    play: str = "human",
    fitted: str | None = None,
) -> Signature:
    """Return what a figure was made by; `play` is human, or self for conversations of bots alone.

    `fitted` is the artefact that has the coefficients, if it is one.
    """
    return Signature(
        metric="mh",
        settings={
            **({"preset": PAPER} if settings.is_paper else {}),
            **details,
            "grd": settings.greedy,
            "ques": settings.questions,
            "laugh": settings.laughter,
            "slope": settings.slope,
            "agg": "mean",
            "z": "train",
            "fit": f"ridge[{settings.ridge:g}]" if settings.ridge else "ols",
            "icpt": settings.intercept,
            "target": settings.target or "mean",
            **({"ratings": f"person-z[{settings.person_z}]"} if settings.person_z is not None else {}),
            "holdout": "bot",
            "play": play,
            **({"hybrid": fitted} if fitted is not None else {}),
            "n": str(conversations),
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
    drawn: ResampledCorrelations | None,
    settings: HybridSettings,
) -> dict[str, Any]:
    """Return the figures of one set of columns; `drawn` is None below five bots, and so is all that is over bots."""
    features = table.matrix(columns)
    intercepts: tuple[Intercept, ...] = ("common", "fold")
    fits = {
        intercept: leave_one_bot_out(features, table.ratings, table.bots, intercept=intercept, penalty=settings.ridge)
        for intercept in intercepts
    }
    fit = fits[settings.intercept]
    predictions = fit.predictions(table.ratings)
    agreement = {
        intercept: asdict(agreement_of_bots(fits[intercept].predictions(table.ratings), means)) for intercept in fits
    }
    conversations = predict_conversations(features, table.ratings, table.bots, settings.ridge)
    return {
        "columns": list(columns),
        "agreement": agreement,
        **_controls(table, means, fit, None if drawn is None else drawn.interval(name), settings),
        "within_bots": within_bots(conversations, table.ratings, table.bots),
        "condition": float(fit.conditions.max()),
        "predictions": dict(zip(table.names, predictions.tolist(), strict=True)),
        "coefficients": {
            column: {"mean": float(values.mean()), "least": float(values.min()), "most": float(values.max())}
            for column, values in zip(columns, fit.coefficients.T, strict=True)
        },
    }


def _controls(
    table: ConversationTable, means: Floats, fit: Fit, interval: Interval | None, settings: HybridSettings
) -> dict[str, Any]:
    """Return what stands beside a correlation over bots; without an interval there is none, and no control of it."""
    if interval is None:
        of_bots = ("interval", "shuffled_ratings", "shuffled_in_folds", "permuted_bots")
        return {**dict.fromkeys(of_bots), "is_shown": False}
    predictions = fit.predictions(table.ratings)
    pearson = agreement_of_bots(predictions, means).pearson
    draws, seed = settings.draws, settings.seed
    shuffled = shuffled_ratings(fit, table.ratings, table.bots, draws=draws, seed=seed)
    permuted = permuted_bots(predictions, means, seed=seed)
    return {
        "interval": asdict(interval),
        "shuffled_ratings": asdict(shuffled),
        "shuffled_in_folds": asdict(shuffled_in_folds(fit, table.ratings, table.bots, draws=draws, seed=seed)),
        "permuted_bots": asdict(permuted),
        "is_shown": pearson is not None and not shuffled.contains(pearson) and permuted.p <= _ALPHA,
    }


def _intercept_only(table: ConversationTable, means: Floats) -> dict[str, Any]:
    """Return what the published intercept alone gives: it falls as the bot's own mean rises."""
    fit = leave_one_bot_out(np.zeros((len(table.ratings), 1)), table.ratings, table.bots, intercept="fold")
    return asdict(agreement_of_bots(fit.predictions(table.ratings), means))


def _agreement_alone(means_of_column: Floats, means: Floats) -> BotAgreement:
    """Return the agreement over the bots that have the column."""
    is_defined = ~np.isnan(means_of_column)
    return agreement_of_bots(means_of_column[is_defined], means[is_defined])


def _within(column: Floats, table: ConversationTable) -> float | None:
    """Return the correlation of a column with the ratings within bots, over the conversations that have it."""
    is_defined = ~np.isnan(column)
    return within_bots(column[is_defined], table.ratings[is_defined], table.bots[is_defined])


def _against_counts(
    sets: Mapping[str, Any], name: str, drawn: ResampledCorrelations | None, intercept: Intercept
) -> dict[str, Any]:
    """Compare a set with the count that agrees best, by the draws that both were fitted to."""
    values = {count: sets[count]["agreement"][intercept]["pearson"] for count in BASELINES}
    best = max(BASELINES, key=lambda count: -2.0 if values[count] is None else values[count])
    pearson = sets[name]["agreement"][intercept]["pearson"]
    if drawn is None or pearson is None or values[best] is None:
        return {"count": best, "difference": None, "interval": None, "is_shown": False}
    interval = drawn.difference(name, best)
    return {
        "count": best,
        "difference": pearson - values[best],
        "interval": asdict(interval),
        "is_shown": interval.draws > 0 and interval.low > 0,
    }
