"""Fitted hybrid metrics as artefacts with versions: written, opened, and used to score other conversations."""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Final

import numpy as np
import orjson
from numpy.typing import NDArray

from refaug.core.artefacts.kinds import artefact_stores
from refaug.core.artefacts.manifests import MANIFEST, require_format, verify_files, write_manifest
from refaug.core.artefacts.versions import Versions
from refaug.core.errors import BadInput, Conflict, Corrupt, TrainedOn, Usage
from refaug.core.files import make_folder, read_json, remove_tree, write_json
from refaug.core.home import Settings
from refaug.core.options.decoding import decode
from refaug.core.progress import Progress
from refaug.extras.conversations.hybrid_metric.agreement import agreement_of_bots
from refaug.extras.conversations.hybrid_metric.encoders import open_encoders, pinned_encoders
from refaug.extras.conversations.hybrid_metric.fit import HybridWeights, column_means
from refaug.extras.conversations.hybrid_report import WIDE, hybrid_report, hybrid_signature, require_paper
from refaug.extras.conversations.judged import TurnJudges, judge_turns, turn_details
from refaug.extras.conversations.options import EncoderRequest, HybridSettings, TurnReferences
from refaug.extras.conversations.reading import Conversation
from refaug.extras.conversations.table import (
    ConversationTable,
    RatedConversations,
    conversation_columns,
    conversation_table,
)
from refaug.metrics.models.model_kinds import ModelKind
from refaug.metrics.signature import Signature
from refaug.rater.adem.scorer.seen_texts import SEEN, SeenTexts
from refaug.scoring.metric_setup.metric_requests import pinned_metric
from refaug.scoring.metric_setup.model_registry import ModelRegistry

KIND: Final = "hybrid"
FORMAT_VERSION: Final = 1
WEIGHTS: Final = "weights.json"
REPORT: Final = "report.json"
_REMEDY: Final = "restore it from a backup, or fit it again"


@dataclass(frozen=True, kw_only=True, eq=False)
class StoredHybrid:
    """An opened version."""

    spec: str  # name@version#content
    manifest: Mapping[str, Any]
    weights: HybridWeights
    settings: HybridSettings
    report: Mapping[str, Any]
    seen: SeenTexts

    @property
    def name(self) -> str:
        """The name with the version, without the content."""
        return self.spec.partition("#")[0]

    @property
    def details(self) -> dict[str, str]:
        """The encoders and metrics of turns, as signatures name them."""
        return {str(slot): str(name) for slot, name in self.manifest["details"].items()}

    def was_fitted_to(self, conversation: Conversation) -> bool:
        """Whether a score of this conversation would come from a fit that has seen its rating.

        A conversation of the same bot is scored by the fit without that bot, which has not seen it.
        """
        if conversation.digest() not in self.seen.hashes:
            return False
        is_left_out = conversation.bot in self.weights.without
        return not (is_left_out and conversation.digest(with_bot=True) in self.seen.hashes)


def hybrid_versions(settings: Settings) -> Versions:
    """Return the versions of this home's hybrids."""
    return artefact_stores(settings)[KIND]


def read_hybrid_manifest(folder: Path) -> Mapping[str, Any]:
    """Return the manifest of a version; Corrupt where it is another kind's."""
    manifest: Mapping[str, Any] = read_json(folder / MANIFEST)
    require_format(folder / MANIFEST, manifest, KIND, FORMAT_VERSION)
    return manifest


def open_hybrid(settings: Settings, spec: str) -> StoredHybrid:
    """Open a version by name or name@version; files that were altered are refused."""
    with hybrid_versions(settings).open(spec.partition("#")[0]) as held:
        manifest = read_hybrid_manifest(held.folder)
        verify_files(held.folder, manifest)
        try:
            return StoredHybrid(
                spec=f"{held.name}@{held.version}#{str(manifest['id'])[:12]}",
                manifest=manifest,
                weights=HybridWeights.read(read_json(held.folder / WEIGHTS)),
                settings=HybridSettings.of_manifest(manifest["fit"]),
                report=read_json(held.folder / REPORT),
                seen=SeenTexts.read(held.folder / SEEN),
            )
        except (KeyError, TypeError, ValueError, BadInput) as error:
            raise Corrupt(f"{held.folder / WEIGHTS}: {error}", remedy=_REMEDY) from error


@dataclass(frozen=True, kw_only=True, eq=False)
class MeasuredConversations:
    """A table with what it was computed by, as signatures name it."""

    rated: RatedConversations
    table: ConversationTable
    details: Mapping[str, str]  # encoders, and the metrics of turns
    turn_signatures: Mapping[str, str]  # metric of turns → its full signature


def measure(
    home: Settings,
    conversations: Sequence[Conversation],
    encoders: EncoderRequest,
    settings: HybridSettings,
    judges: TurnJudges | None,
    progress: Progress,
) -> MeasuredConversations:
    """Compute every column of the conversations that were rated."""
    rated = RatedConversations.of(conversations, settings)
    opened = open_encoders(home, encoders)
    opened.require_language(text for conversation in rated.conversations for _, text in conversation.turns)
    require_paper(opened.details, settings)
    judged = judge_turns(home, rated.conversations, judges, progress) if judges is not None else []
    table = conversation_table(rated, opened.reader, settings, progress, judged)
    return MeasuredConversations(
        rated=rated,
        table=table,
        details={**opened.details, **turn_details(judged)},
        turn_signatures={scores.name: scores.signature.full for scores in judged},
    )


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

_FILES: Final = (WEIGHTS, REPORT, SEEN)


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
    versions = hybrid_versions(home)
    staged = home.cache / f"{KIND}-{name}"
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
        write_manifest(staged, KIND, FORMAT_VERSION, _FILES, parts)
        version = writer.add(staged)
        writer.publish(version)
    return FittedHybrid(version=version, report=report)


def _write_files(
    staged: Path, weights: HybridWeights, report: Mapping[str, Any], measured: MeasuredConversations
) -> None:
    write_json(staged / WEIGHTS, weights.as_json())
    write_json(staged / REPORT, dict(report))
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
        rows, scores_of = [], defaultdict[str, list[float]](list)
        for talk, score in zip(self.conversations, self.scores.tolist(), strict=True):
            scores_of[talk.bot].append(score)
        for bot, own in scores_of.items():
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
    bots = sorted({talk.bot for talk in fresh})
    if True in is_played and len(bots) < 2 and stored.weights.intercept != "fold":
        raise BadInput(
            f"self-play of {bots[0]} alone, whose mean score is 0 as it is compared with itself",
            remedy="play all bots under one name: refaug bots play BOT BOT … --name NAME",
        )
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
