"""Verify the log of another harness: its fields and seals against its records, and the scores of these made again."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any, Final

from refaug.core.errors import BadInput, RefaugError
from refaug.core.progress import Progress, Silent
from refaug.core.records import Item
from refaug.scoring.score_files.harness_logs import HarnessLog, ScoredSample
from refaug.scoring.score_files.sample_records import SYSTEM, SampleRecord, corpus_of
from refaug.scoring.score_files.score_file import ScoreFile, StoredScores
from refaug.scoring.settings import ScoreSettings
from refaug.scoring.verification.artefact_parts import Verification, VerifiedPart
from refaug.scoring.verification.verification import Workplace, verify

_SHOWN: Final = 3
_OF_FILES: Final = frozenset({"file", "items", "data", "utterances", "replies", "references"})  # records seal them here
_EXACT: Final = 1e-9


def verify_log(log: HarnessLog, workplace: Workplace, progress: Progress | None = None) -> Verification:
    """Verify all scores of a log that have records; BadInput where none has.

    Scores of several signatures, as of two releases, are verified group by group: what differs in one leaves others be.
    """
    parts = list(_log_parts(log))
    for metric, samples in log.by_metric().items():
        recorded = [sample for sample in samples if sample.record is not None]
        if not recorded:
            continue
        parts += _sample_parts(metric, samples)
        by_signature = dict[str, list[ScoredSample]]()
        for sample in recorded:
            by_signature.setdefault(_record(sample).signature.full, []).append(sample)
        for group in by_signature.values():
            parts += _group_parts(metric, group, workplace, progress or Silent())
        if metric in log.corpus:
            parts.append(_corpus_part(metric, recorded, log.corpus[metric]))
    return Verification(parts=tuple(parts))


def _log_parts(log: HarnessLog) -> Iterator[VerifiedPart]:
    count = sum(sample.record is not None for sample in log.samples)
    if not count:
        raise BadInput(
            f"{log.shown_name}: none of its scores has a signature of refaug",
            remedy="score with the plug-in for the harness: clients/lm_eval or clients/inspect",
        )
    if log.problems:
        yield VerifiedPart.differs("log", _listed(log.problems))
    else:
        yield VerifiedPart.holds("log", f"{count:,} scores of refaug in a log of {log.harness}")


def _sample_parts(metric: str, samples: Sequence[ScoredSample]) -> Iterator[VerifiedPart]:
    """Yield whether every sample has a record that is as it was written, and says what the harness says."""
    broken = [
        f"sample {sample.id} has no record" if sample.record is None else f"sample {sample.id} was changed"
        for sample in samples
        if sample.record is None or not sample.record.is_sealed
    ]
    if broken:
        yield VerifiedPart.differs("records", f"the seal does not fit: {_listed(broken)}", metric)
    else:
        yield VerifiedPart.holds("records", f"{len(samples):,} are what was written: their seals fit", metric)
    signatures = Counter(sample.record.signature.full for sample in samples if sample.record is not None)
    if len(signatures) > 1:
        usual = signatures.most_common(1)[0][0]
        others = [
            f"sample {sample.id} has {sample.record.signature.short}"
            for sample in samples
            if sample.record is not None and sample.record.signature.full != usual
        ]
        yield VerifiedPart.differs("signatures", f"other than those of most samples: {_listed(others)}", metric)
    if wrong := [words for sample in samples for words in sample.contradictions]:
        yield VerifiedPart.differs("samples", _listed(wrong), metric)
    else:
        yield VerifiedPart.holds("samples", "replies, references and scores are those of the records", metric)


def _group_parts(
    metric: str, samples: Sequence[ScoredSample], workplace: Workplace, progress: Progress
) -> Iterator[VerifiedPart]:
    """Yield the parts of the scores of one signature, made again."""
    try:
        file, items = _as_score_file(samples), [_item(sample) for sample in samples]
    except RefaugError as error:
        yield VerifiedPart.differs("scores", error.message, metric)
        return
    for part in verify(file, items, workplace, progress).parts:
        if part.part not in _OF_FILES:
            yield part


def _as_score_file(samples: Sequence[ScoredSample]) -> ScoreFile:
    """Return records of one signature as a score file without corpus scores."""
    record = _record(samples[0])
    replies = [_record(sample).stored_reply(sample.id) for sample in samples]
    document = {
        **{field: record.document.get(field) for field in ("metric", "signature_full", "higher_is_better")},
        "signature": record.signature.short,
        "systems": {SYSTEM: {"replies": replies}},
    }
    return ScoreFile(
        document={"level": "reply", "resampling": ScoreSettings(draws=0).resampling()},
        scores=(StoredScores(document=document, signature=record.signature),),
    )


def _corpus_part(metric: str, samples: Sequence[ScoredSample], logged: float) -> VerifiedPart:
    """Compare the corpus score of the log with that of its records."""
    try:
        corpus = corpus_of([_record(sample).document for sample in samples])
    except RefaugError as error:
        return VerifiedPart.unchecked("corpus scores", f"not computed again: {error.message}", metric)
    if corpus is not None and abs(corpus - logged) <= _EXACT:
        return VerifiedPart.holds("corpus scores", f"equal within {_EXACT:g}", metric)
    return VerifiedPart.differs("corpus scores", f"{logged:.9g} in the log, {_shown(corpus)} now", metric)


def _record(sample: ScoredSample) -> SampleRecord:
    assert sample.record is not None, "a sample with a record"
    return sample.record


def _item(sample: ScoredSample) -> Item:
    """Return the item that was scored, under the id of the sample, since ids of records may repeat."""
    return replace(_record(sample).item, id=sample.id)


def _listed(texts: Sequence[str]) -> str:
    more = f"; and {len(texts) - _SHOWN:,} more" if len(texts) > _SHOWN else ""
    return "; ".join(texts[:_SHOWN]) + more


def _shown(number: Any) -> str:
    return "none" if number is None else f"{number:.9g}"
