"""Fitting a hybrid metric to rated conversations, and writing it as a version with the figures that it came with."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

import orjson

from refaug.core.artefacts.manifests import write_manifest
from refaug.core.errors import Corrupt
from refaug.core.files import make_folder, remove_tree, write_json
from refaug.core.home import Settings
from refaug.core.options.decoding import decode
from refaug.core.progress import Progress
from refaug.extras.conversations.encoders.opening import pinned_encoders
from refaug.extras.conversations.hybrid_metric.fit import HybridWeights
from refaug.extras.conversations.hybrid_report import WIDE, hybrid_report
from refaug.extras.conversations.hybrids import stored
from refaug.extras.conversations.judged import TurnJudges
from refaug.extras.conversations.measuring import MeasuredConversations, measure
from refaug.extras.conversations.options.conversation_source import TurnReferences
from refaug.extras.conversations.options.hybrid_settings import EncoderRequest, HybridSettings
from refaug.extras.conversations.records import Conversation
from refaug.metrics.models.model_kinds import ModelKind
from refaug.rater.adem.scorer.adem import SEEN, SeenTexts
from refaug.scoring.metric_setup.metric_requests import pinned_metric
from refaug.scoring.metric_setup.model_registry import ModelRegistry

# ── ───────────────────────────────────────────────────────────────────────────────────────────────────────────────────
#
# The metrics of turns of a hybrid, pinned to versions of their models when it is fitted, and opened by these later.


def pinned_judges(judges: TurnJudges | None) -> TurnJudges | None:
    """Return the metrics with versions for names, so that a later publication changes no score."""
    if judges is None:
        return None
    models, rater, index = judges.models, judges.models.default_rater, judges.index
    return replace(
        judges,
        metrics=[pinned_metric(models, metric) for metric in judges.metrics],
        models=replace(models, default_rater=None if rater is None else models.pinned(ModelKind.RATER, rater)),
        index=None if index is None else models.resolve(ModelKind.INDEX, index),
    )


def read_judges(home: Settings, fields: Mapping[str, Any] | None, threads: int | None) -> TurnJudges | None:
    """Return the metrics of turns as a manifest has them; None where the hybrid has none."""
    if fields is None:
        return None
    if "references" not in fields:
        raise Corrupt("the hybrid does not say how references of turns were found", remedy="fit it again")
    return TurnJudges(
        metrics=list(fields["metrics"]),
        models=ModelRegistry(home, threads, default_rater=fields["rater"]),
        index=fields["index"],
        references=decode(TurnReferences, fields["references"]),
    )


# ── Fitting a hybrid metric to rated conversations, and writing it as a version with the figures that it came with ────

_FILES: Final = (stored.WEIGHTS, stored.REPORT, SEEN)


@dataclass(frozen=True, kw_only=True)
class HybridOrder:
    """What is to be fitted: the encoders, the metrics of turns, the settings, and which columns."""

    encoders: EncoderRequest
    settings: HybridSettings
    judges: TurnJudges | None
    columns: str  # hybrid: the eleven components; wide: with counts and metrics of turns


@dataclass(frozen=True, kw_only=True)
class FittedHybrid:
    """The version that was written, and its figures."""

    version: str
    report: Mapping[str, Any]


def fit_hybrid(
    home: Settings, name: str, conversations: Sequence[Conversation], order: HybridOrder, progress: Progress
) -> FittedHybrid:
    """Fit to conversations, leave one bot out at a time, and publish a new version."""
    judges = pinned_judges(order.judges)
    measured = measure(home, conversations, order.encoders, order.settings, judges, progress)
    table = measured.table
    columns = table.wide if order.columns == WIDE else table.components
    progress.stage("fit, intervals and controls")
    report = hybrid_report(table, order.settings, measured.details)
    report["turn_signatures"] = dict(measured.turn_signatures)
    weights = HybridWeights.of(
        columns,
        table.matrix(columns),
        table.ratings,
        table.bots,
        table.names,
        intercept=order.settings.intercept,
        penalty=order.settings.ridge,
    )
    versions = stored.hybrid_versions(home)
    staged = home.cache / f"{stored.KIND}-{name}"
    with versions.writing(name, f"fitting hybrid {name}") as writer:
        remove_tree(staged)
        make_folder(staged)
        _write_files(staged, weights, report, measured)
        parts = {
            "columns": order.columns,
            "details": dict(measured.details),
            "encoders": pinned_encoders(home, order.encoders),
            "turns": judges.as_json() if judges is not None else None,
            "turn_signatures": dict(measured.turn_signatures),
            "fit": order.settings.as_manifest(),
            "fitted_to": _fitted_to(measured),
            "signature": report["signature_full"],
        }
        write_manifest(staged, stored.KIND, stored.FORMAT_VERSION, _FILES, parts)
        version = writer.add(staged)
        writer.publish(version)
    return FittedHybrid(version=version, report=report)


def _write_files(
    staged: Path, weights: HybridWeights, report: Mapping[str, Any], measured: MeasuredConversations
) -> None:
    write_json(staged / stored.WEIGHTS, weights.as_json())
    write_json(staged / stored.REPORT, dict(report))
    conversations = measured.rated.conversations
    hashes = {talk.digest(with_bot=with_bot) for talk in conversations for with_bot in (False, True)}
    SeenTexts(hashes=frozenset(hashes)).write(staged / SEEN)


def _fitted_to(measured: MeasuredConversations) -> dict[str, Any]:
    """Return the number of conversations and bots, and a hash of all that the coefficients depend on."""
    digest = hashlib.sha256()
    for talk, rating in zip(measured.rated.conversations, measured.rated.ratings.tolist(), strict=True):
        digest.update(orjson.dumps([talk.id, talk.bot, [[side.value, text] for side, text in talk.turns], rating]))
    return {
        "conversations": len(measured.rated.conversations),
        "bots": list(measured.table.names),
        "data": digest.hexdigest(),
    }
