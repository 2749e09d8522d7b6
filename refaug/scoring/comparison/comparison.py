"""Two score files side by side, or two systems of one: paired tests, and the replies that changed.

`compare` is pure: score files in, a `RunComparison` out. `page` and `wording` render it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Final, Self

from refaug.core.errors import BadInput, Usage
from refaug.metrics.catalogue import find_info
from refaug.metrics.metric_info import Uses
from refaug.metrics.statistics.resampling import holm
from refaug.scoring.comparison.reply_changes import ChangeFilter, Direction, PairedReplies, ReplyChange
from refaug.scoring.comparison.scored_system import ScoreLevel, SystemRun, SystemTest, metric_of_sums, system_tests
from refaug.scoring.metric_setup.signature_requests import SignatureDifference, signature_differences
from refaug.scoring.score_files.score_file import ScoreFile, StoredScores
from refaug.scoring.settings import ScoreSettings

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
    for hashed, matters in (("data", True), ("utterances", False)):
        before, now = first.text(hashed), second.text(hashed)
        if before != now and None not in (before, now):
            yield RunDifference(
                what="items" if matters else hashed,
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
            remedy="score both against the same references: a frozen set, or items of one refaug sets references",
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
    info = find_info(stored.name)
    return not (same_references and info is not None and info.uses is Uses.WEIGHTED)


@dataclass(frozen=True, kw_only=True)
class ComparisonRequest:
    """What to compare, and how."""

    systems: tuple[str, str] | None = None  # one of the first file, one of the second
    system: str | None = None  # alone, of those that both files have
    metrics: tuple[str, ...] = ()  # by name; empty: all that both files have
    settings: ScoreSettings = field(default_factory=ScoreSettings)
    changes: ChangeFilter = field(default_factory=ChangeFilter)
    is_forced: bool = False  # compare also what is not comparable, and say so
    check: Callable[[], None] = lambda: None  # called again and again; it may raise, and so end the work


@dataclass(frozen=True, kw_only=True)
class PairComparison:
    """Two systems under one metric; the figures are second minus first."""

    metric: str
    first_system: str
    second_system: str
    first_signature: str
    second_signature: str
    higher_is_better: bool
    scale: float
    tests: tuple[SystemTest, ...]  # the main one first
    counts: Mapping[Direction, int]
    changes: tuple[ReplyChange, ...]
    confidence: float

    @property
    def main(self) -> SystemTest:
        """The test that Holm's p is of: of the corpus score, else of the mean."""
        return next((test for test in self.tests if test.p_randomisation is not None), self.tests[0])

    @property
    def verdict(self) -> str:
        """Whether a difference is shown: better, worse, or not shown."""
        test = self.main
        if test.holm_p is None or test.difference is None or test.holm_p >= 1 - self.confidence:
            return "not shown"
        return "better" if (test.difference > 0) is self.higher_is_better else "worse"

    def as_json(self) -> dict[str, object]:
        """Return the comparison of this pair as JSON."""
        return {
            "metric": self.metric,
            "first_system": self.first_system,
            "second_system": self.second_system,
            "first_signature": self.first_signature,
            "second_signature": self.second_signature,
            "higher_is_better": self.higher_is_better,
            "scale": self.scale,
            "verdict": self.verdict,
            "tests": [test.as_json() for test in self.tests],
            "counts": {direction.value: count for direction, count in self.counts.items()},
            "changes": [change.as_json() for change in self.changes],
        }


@dataclass(frozen=True, kw_only=True)
class RunComparison:
    """The comparison of two files, or of two systems of one."""

    first_file: str
    second_file: str
    pairs: tuple[PairComparison, ...]
    differences: tuple[RunDifference, ...]
    warnings: tuple[str, ...]
    settings: ScoreSettings
    changes: ChangeFilter
    has_texts: bool

    @property
    def overridden(self) -> str:
        """What makes the scores incomparable that were compared all the same; empty where nothing does."""
        mattering = "; ".join(str(difference) for difference in self.differences if difference.matters)
        return f"these scores are not comparable, and were compared all the same: {mattering}" if mattering else ""

    @property
    def is_comparable(self) -> bool:
        """Whether nothing that matters differs."""
        return not any(difference.matters for difference in self.differences)

    def as_json(self) -> dict[str, object]:
        """Return the comparison as one document."""
        return {
            "first": self.first_file,
            "second": self.second_file,
            "comparable": self.is_comparable,
            "differences": [difference.as_json() for difference in self.differences],
            "warnings": list(self.warnings),
            "resampling": self.settings.resampling(),
            "comparisons": [pair.as_json() for pair in self.pairs],
        }


def compare(first: ScoreFile, second: ScoreFile, request: ComparisonRequest | None = None) -> RunComparison:
    """Compare the scores of two files; `second` may be `first`, where two of its systems are named.

    BadInput where they are not comparable, unless the request forces it; Usage where it names what neither has.
    """
    request = request or ComparisonRequest()
    require_draws(request.settings)
    places, lacking = _paired_metrics(first, second, request.metrics)
    differences = [*file_differences(first, second)] if first is not second else []
    for before, now in places:
        differences += metric_differences(first.scores[before], second.scores[now]) if first is not second else ()
    if not request.is_forced:
        require_comparable(differences)
    names = _paired_systems(first, second, request)
    return _compared(first, second, request, places, names, differences, lacking)


def compare_systems(file: ScoreFile, baseline: str, request: ComparisonRequest | None = None) -> RunComparison:
    """Compare every other system of a file with one of them; Holm's p is over all of them and all metrics."""
    request = request or ComparisonRequest()
    require_draws(request.settings)
    names = [(baseline, name) for name in file.scores[0].systems if name != baseline]
    places = [(place, place) for place in range(len(file.scores))]
    return _compared(file, file, request, places, names, [], [])


def _compared(
    first: ScoreFile,
    second: ScoreFile,
    request: ComparisonRequest,
    places: Sequence[tuple[int, int]],
    names: Sequence[tuple[str, str]],
    differences: Sequence[RunDifference],
    lacking: Sequence[str],
) -> RunComparison:
    pairs = _with_holm(
        _compared_pair(_Pair.of(first, second, place, name), request) for place in places for name in names
    )
    has_texts = first.details is not None or second.details is not None
    if request.changes.grep is not None and not has_texts:
        raise Usage("a search in files without texts", remedy="write them with refaug score --json --details")
    comparison = RunComparison(
        first_file=first.shown_name,
        second_file=second.shown_name,
        pairs=pairs,
        differences=tuple(differences),
        warnings=(),
        settings=request.settings,
        changes=request.changes,
        has_texts=has_texts,
    )
    return replace(comparison, warnings=tuple(_warnings(first, second, comparison, lacking)))


def require_draws(settings: ScoreSettings) -> None:
    """Refuse a comparison without tests."""
    if not settings.draws:
        raise Usage("a comparison without draws", remedy="--draws 1000: the tests are made of them")


# ── What belongs together ─────────────────────────────────────────────────────────────────────────────────────────────


def _paired_metrics(
    first: ScoreFile, second: ScoreFile, names: Sequence[str]
) -> tuple[list[tuple[int, int]], list[str]]:
    """Return the places of metrics that both files have, and the names of the others; of several, the most alike."""
    listed = [scores.name for scores in first.scores]
    if unknown := [name for name in names if name not in listed]:
        raise Usage(f"{first.shown_name} has no scores by {unknown[0]}", remedy=f"one of: {', '.join(listed)}")
    free, pairs, lacking = dict(enumerate(second.scores)), list[tuple[int, int]](), list[str]()
    for place, scores in enumerate(first.scores):
        if names and scores.name not in names:
            continue
        alike = {
            other: len(signature_differences(scores.signature, candidate.signature))
            for other, candidate in free.items()
            if candidate.name == scores.name
        }
        if not alike:
            lacking.append(scores.name)
            continue
        chosen = min(alike, key=lambda other: alike[other])
        pairs.append((place, chosen))
        del free[chosen]
    if not pairs:
        in_second = ", ".join(dict.fromkeys(scores.name for scores in second.scores))
        raise BadInput(
            f"the files have no metric in common: {', '.join(lacking)} and {in_second}",
            remedy="score both by the same metrics",
        )
    return pairs, [*lacking, *(scores.name for scores in free.values() if not names)]


def _paired_systems(first: ScoreFile, second: ScoreFile, request: ComparisonRequest) -> list[tuple[str, str]]:
    """Return the systems to compare: those named, those of one name, or the only ones."""
    before, now = list(first.scores[0].systems), list(second.scores[0].systems)
    if request.systems is not None:
        for name, systems, file in zip(request.systems, (before, now), (first, second), strict=True):
            if name not in systems:
                raise Usage(f"{file.shown_name} has no system {name!r}", remedy=f"one of: {', '.join(systems)}")
        if first is second and request.systems[0] == request.systems[1]:
            raise Usage(f"{request.systems[0]} beside itself", remedy="name two systems")
        return [request.systems]
    if first is second:
        raise Usage(
            f"one file with {len(before)} systems", remedy=f"--systems FIRST,SECOND: two of {', '.join(before)}"
        )
    both = [name for name in before if name in now]
    if request.system is not None:
        if request.system not in both:
            raise Usage(f"not both files have a system {request.system!r}", remedy=f"one of: {', '.join(both) or '—'}")
        return [(request.system, request.system)]
    if both:
        return [(name, name) for name in both]
    if len(before) == len(now) == 1:
        return [(before[0], now[0])]
    raise Usage(
        f"the files have no system in common: {', '.join(before)} and {', '.join(now)}",
        remedy="--systems FIRST,SECOND: one of the first file, one of the second",
    )


@dataclass(frozen=True, kw_only=True)
class _Pair:
    """Two systems under one metric, with the items that both files have."""

    first: SystemRun
    second: SystemRun
    ids: list[str]
    scale: float

    @classmethod
    def of(cls, first: ScoreFile, second: ScoreFile, places: tuple[int, int], names: tuple[str, str]) -> Self:
        """Join the systems by the ids of items, in the order of the first file."""
        before, now = (
            SystemRun(file=file, place=place, name=name)
            for file, place, name in zip((first, second), places, names, strict=True)
        )
        if (lacking := next((one for one in (before, now) if one.name not in one.stored.systems), None)) is not None:
            raise BadInput(
                f"{lacking.file.shown_name}: {lacking.stored.name} has no scores of {lacking.name}",
                remedy="name the metrics that have: --metric",
            )
        ids = [name for name in before.rows if name in now.rows]
        if not ids:
            raise BadInput("the files have no item in common", remedy="score both systems on the same items")
        scale = before.stored.scale if before.stored.scale == now.stored.scale else 1.0
        return cls(first=before, second=now, ids=ids, scale=scale)


def _compared_pair(pair: _Pair, request: ComparisonRequest) -> PairComparison:
    higher_is_better = pair.first.stored.document.get("higher_is_better") is not False
    paired = PairedReplies(
        first=pair.first,
        second=pair.second,
        ids=pair.ids,
        scale=pair.scale,
        higher_is_better=higher_is_better,
        metric=metric_of_sums(pair.first, pair.second)[0],
    )
    request.check()
    counts, changes = paired.select(request.changes)
    return PairComparison(
        metric=pair.first.stored.name,
        first_system=pair.first.name,
        second_system=pair.second.name,
        first_signature=pair.first.stored.short_signature or pair.first.stored.signature.short,
        second_signature=pair.second.stored.short_signature or pair.second.stored.signature.short,
        higher_is_better=higher_is_better,
        scale=pair.scale,
        tests=system_tests(pair.first, pair.second, pair.ids, request.settings, pair.scale, request.check),
        counts=counts,
        changes=changes,
        confidence=request.settings.confidence,
    )


def _with_holm(pairs: Iterable[PairComparison]) -> tuple[PairComparison, ...]:
    """Adjust the p of each pair's main test over all pairs."""
    listed = list(pairs)
    adjusted = holm([pair.main.p_randomisation for pair in listed])
    return tuple(
        replace(
            pair,
            tests=tuple(replace(test, holm_p=p) if test is pair.main else test for test in pair.tests),
        )
        for pair, p in zip(listed, adjusted, strict=True)
    )


def _warnings(first: ScoreFile, second: ScoreFile, comparison: RunComparison, lacking: Sequence[str]) -> Iterator[str]:
    if comparison.overridden:
        yield comparison.overridden
    for difference in comparison.differences:
        if not difference.matters:
            yield f"{difference}, which should not change a score"
    if lacking:
        yield f"only one of the files has scores by {', '.join(dict.fromkeys(lacking))}"
    for pair in comparison.pairs:
        if left_out := max(test.left_out for test in pair.tests):
            systems = " and ".join(dict.fromkeys((pair.first_system, pair.second_system)))
            yield f"{pair.metric}, {systems}: {left_out:,} items have a score in one of the two alone, and are left out"
    tests = [test for pair in comparison.pairs for test in pair.tests]
    yield from dict.fromkeys(test.note for test in tests if test.note)
    if any(test.level is ScoreLevel.CORPUS and test.p_randomisation is None for test in tests):
        yield "the tests are of the mean of the reply scores, which is not the corpus score"
    if not comparison.has_texts:
        yield "the files have no texts: refaug score --json --details writes them"
    if first is not second and first.text("replies") is not None and first.text("replies") == second.text("replies"):
        yield "both files are of the same replies"
