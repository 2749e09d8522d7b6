"""Whether scores of two files may be compared: what differs between the files, and what would be right instead.

Scores are comparable if they answer the same items, by the same metric with the same settings, against the same
references. What cannot change a score is noted: another release, another index whose references are the same.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Final

from refaug.core.errors import BadInput
from refaug.evaluation.metric_setup.signature_requests import SignatureDifference, signature_differences
from refaug.evaluation.score_files.score_file import ScoreFile, StoredScores
from refaug.metrics.catalogue import METRICS
from refaug.metrics.metric_info import Uses

_RELEASE: Final = re.compile(r"(\S+ )?\d+(\.\d+)+\S*")  # of a library, such as 1.4 or unicode 14.0; a model has a hash
_NOTHING: Final = "—"
_SHOWN: Final = 3
_REMEDIES: Final = {
    "parrot": "score both with the same --parrot: with it, a system that repeats the utterance scores more",
    "index": "score both with one version of one index (--index NAME@VERSION), or against one frozen set",
    "rater": "score both with one version of one rater (--rater NAME@VERSION), or against one frozen set",
    "b": "score both with one b, such as upsilon-bleu:b=0.1: scores with another b have another scale",
}


@dataclass(frozen=True, kw_only=True)
class RunDifference:
    """A difference between two files that is not a score, and what to do about it where it matters."""

    what: str
    first: str
    second: str
    matters: bool
    remedy: str = ""
    metric: str | None = None

    def __str__(self) -> str:
        of_metric = f"{self.metric}: " if self.metric else ""
        return f"{of_metric}{self.what}: {self.first or _NOTHING} and {self.second or _NOTHING}"

    def as_json(self) -> dict[str, object]:
        """Return the fields."""
        return asdict(self)


def require_comparable(differences: Iterable[RunDifference]) -> None:
    """Raise BadInput with what differs, and what would be right, where a difference matters."""
    mattering = [difference for difference in differences if difference.matters]
    if mattering:
        remedies = dict.fromkeys(difference.remedy for difference in mattering if difference.remedy)
        raise BadInput(
            f"these scores cannot be compared: {'; '.join(map(str, mattering))}",
            remedy=f"{'; '.join(remedies)}; --anyway compares all the same, and says so",
        )


def file_differences(first: ScoreFile, second: ScoreFile) -> Iterator[RunDifference]:
    """Yield what differs between two files as wholes: seals, items, sets, utterances."""
    for file in (first, second):
        if file.is_sealed is False or file.lacks_seal:
            yield RunDifference(
                what=f"the seal of {file.shown_name}",
                first="as written",
                second="it does not fit: the file was changed",
                matters=True,
                remedy="take the file as refaug wrote it, or score again",
            )
    if first.set_id != second.set_id:
        yield RunDifference(
            what="frozen set",
            first=first.set_id or "",
            second=second.set_id or "",
            matters=bool(first.set_id and second.set_id),
            remedy="score both against one set",
        )
    for field, matters in (("data", True), ("utterances", False)):
        before, now = first.text(field), second.text(field)
        if before != now and None not in (before, now):
            yield RunDifference(
                what="items" if matters else field,
                first=f"{before} ({_count(first)})" if matters else str(before),
                second=f"{now} ({_count(second)}{_id_words(first, second)})" if matters else str(now),
                matters=matters,
                remedy="score both systems on the same items" if matters else "",
            )


def _count(file: ScoreFile) -> str:
    count = file.document.get("items")
    return f"{count:,} items" if isinstance(count, int) else "of unknown number"


def _id_words(first: ScoreFile, second: ScoreFile) -> str:
    """Return the first ids that only one of the files has."""
    before, now = _ids(first), _ids(second)
    if not before or not now:
        return ""
    in_first, in_second = set(before), set(now)
    only = [
        f", only in {file.shown_name}: {', '.join(names[:_SHOWN])}{' …' if len(names) > _SHOWN else ''}"
        for file, names in (
            (first, [name for name in before if name not in in_second]),
            (second, [name for name in now if name not in in_first]),
        )
        if names
    ]
    return "".join(only) or ", of the same ids"


def _ids(file: ScoreFile) -> Sequence[str]:
    systems = file.scores[0].systems.values()
    listed: Sequence[Mapping[str, Any]] = next((system["replies"] for system in systems if "replies" in system), [])
    return [str(row.get("id")) for row in listed]


def metric_differences(first: StoredScores, second: StoredScores) -> Iterator[RunDifference]:
    """Yield what differs in how a metric was computed: parameters, retrieval and rating, references, releases."""
    before, now = first.document.get("references"), second.document.get("references")
    same_references = before is not None and before == now
    for difference in signature_differences(first.signature, second.signature):
        matters = _matters(difference, first, same_references=same_references)
        yield RunDifference(
            what=difference.key,
            first=difference.first,
            second=difference.second,
            matters=matters,
            remedy=_REMEDIES.get(difference.key, "score both with the signature of one: --signature")
            if matters
            else "",
            metric=first.name,
        )
    if not same_references:
        yield RunDifference(
            what="references and weights",
            first=str(before or ""),
            second=str(now or ""),
            matters=True,
            remedy="score both against the same references: a frozen set, or items of one refaug refs",
            metric=first.name,
        )


def _matters(difference: SignatureDifference, stored: StoredScores, *, same_references: bool) -> bool:
    """Whether scores may differ by this: not by releases, nor by retrieval that gave the same references."""
    is_release = all(not text or _RELEASE.fullmatch(text) for text in (difference.first, difference.second))
    own = {key for key, _ in stored.signature.specification().parameters} | {"metric", "parrot"}
    if difference.key in own:
        return True
    if difference.key == "refaug" or is_release:
        return False
    info = METRICS.get(stored.name)
    return not (same_references and info is not None and info.uses is Uses.WEIGHTED)
