"""The metric `panel`: several judges and metrics as one.

Every member is asked by itself and puts its verdict on a scale from 0 to 1; a member that fails costs its own verdict
alone, and is counted. Statistics also have the sums of Krippendorff's α over the members, so that it can be added over
replies and resampled.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from copy import copy
from dataclasses import replace
from typing import Final

import numpy as np

from refaug.core.errors import Usage
from refaug.extras.judges.metrics.component_metrics import (
    ComponentMetric,
    PreparedComponents,
    references_of_component,
    uses_of,
)
from refaug.metrics.base import Floats, Indexes, Level, Metric, Prepared, Problem, References
from refaug.metrics.metric_info import MetricInfo
from refaug.metrics.models.model_kinds import VectorOpener
from refaug.metrics.parameters import Range, decimal, shortest
from refaug.metrics.specification import BETWEEN_MEMBERS, Specification, as_part, build, built_part, part_of

_PASSES: Final = 0.5  # a verdict from here on is a vote for the reply, with blend=majority
_FEWEST_TRIMMED: Final = 3
_DIGITS: Final = 12  # of combined verdicts: the mean of equal ones is that one, without the last bits of adding
_OWN_COLUMNS: Final = ("total", "replies", "verdicts", "pairable", "sum", "squares", "differences")


class JudgePanel(ComponentMetric):
    """The members, the way in which their verdicts become one, and what counts as 0 and 1 of each."""

    def __init__(self, info: MetricInfo, settings: Mapping[str, str], source: VectorOpener | None = None) -> None:
        self.info = info
        self._own = dict(settings)
        self.components = _members(info.name, settings["of"], source)
        self._weights = _weights(info.name, settings, len(self.components))
        self._ranges: tuple[Range, ...] | None = None
        if settings["norm"] == "range":
            self._ranges = tuple(_declared_range(info.name, member) for member in self.components)
        self.columns = (*_OWN_COLUMNS, *(f"{part}_{n + 1}" for n in self._numbers for part in ("verdict", "count")))
        self._update_settings()

    @property
    def _numbers(self) -> range:
        return range(len(self.components))

    def _update_settings(self) -> None:
        """Name the members with their parameters; what judges say beside, such as fingerprints, has their numbers."""
        members, beside = list[str](), dict[str, str]()
        for number, member in enumerate(self.components, start=1):
            names = {parameter.name for parameter in member.info.parameters}
            plain = copy(member)
            plain.settings = {key: setting for key, setting in member.settings.items() if key in names}
            members.append(as_part(plain))
            beside |= {f"{key}-{number}": text for key, text in member.settings.items() if key not in names}
        self.settings = {**self._own, "of": BETWEEN_MEMBERS.join(members), **beside}
        self.info = replace(self.info, uses=uses_of(self.components))

    def _with_components(self, components: Sequence[Metric]) -> JudgePanel:
        copied = super()._with_components(components)
        copied._update_settings()  # noqa: SLF001
        return copied

    def with_bound(self, bind: Callable[[Sequence[Metric]], list[Metric]]) -> JudgePanel:
        """Return the panel with its members bound to their models."""
        return self._with_components(bind(self.components))

    def for_replies(self, replies: Sequence[str], references: Sequence[References], item_places: Indexes) -> JudgePanel:
        """Return the panel with its members for these replies and, with `norm=test`, their ranges over them."""
        bound = super().for_replies(replies, references, item_places)
        if self._own["norm"] == "test":
            has_text = np.array([bool(text.strip()) for text in replies], dtype=np.bool_)
            bound._ranges = tuple(  # noqa: SLF001
                _span(member, number, replies, references, np.where(has_text, item_places, -1))
                for number, member in enumerate(bound.components)
            )
        return bound

    def prepare(self, references: Sequence[References]) -> PreparedComponents:
        """Let every member prepare; an item that none can look at has the problem of the first."""
        components = self.prepare_components(references)
        unusable = set[int].intersection(*(set(component.problems) for component in components))
        problems = {place: components[0].problems[place] for place in sorted(unusable)}
        return PreparedComponents.of(references, problems, components)

    def statistics(
        self, replies: Sequence[str], prepared: Prepared, reply_places: Indexes, item_places: Indexes
    ) -> Floats:
        """Return the combined verdict, a count, the sums of α, and each member's verdict with its count."""
        assert isinstance(prepared, PreparedComponents)
        verdicts = self._verdicts(self.component_values(replies, prepared, reply_places, item_places))
        has_verdict = np.isfinite(verdicts)
        plain, counts = np.where(has_verdict, verdicts, 0.0), has_verdict.sum(axis=1)
        members = np.stack([plain, has_verdict], axis=-1).reshape(len(verdicts), -1)
        scores = np.full(len(verdicts), np.nan)
        rows = np.flatnonzero(counts)
        if len(rows):
            scores[rows] = np.round(self._combined(verdicts[rows]), _DIGITS)
        own = np.stack([scores, np.ones(len(scores)), counts, *_alpha_sums(plain, has_verdict)], axis=-1)
        table = np.concatenate([own, members], axis=1)
        table[counts == 0] = np.nan
        return table

    def _verdicts(self, values: Floats) -> Floats:
        """Return the values of members on a scale from 0 to 1, on which more is better."""
        if self._ranges is None:
            raise Usage(
                f"{self.name} with norm=test is only defined for all replies of a test set at once",
                remedy="norm=range, where replies are scored one by one",
            )
        columns = [
            scale.scale(values[:, place]) if member.info.higher_is_better else 1 - scale.scale(values[:, place])
            for place, (scale, member) in enumerate(zip(self._ranges, self.components, strict=True))
        ]
        return np.stack(columns, axis=1)

    def _combined(self, verdicts: Floats) -> Floats:
        """Return one verdict for each row; every row has one, NaN where a member has none."""
        blend, has_verdict = self._own["blend"], np.isfinite(verdicts)
        if blend == "majority":
            votes = np.where(has_verdict, np.where(verdicts >= _PASSES, 1.0, -1.0), 0.0).sum(axis=1)
            return np.asarray((np.sign(votes) + 1) / 2)
        if blend == "median":
            return np.asarray(np.nanmedian(verdicts, axis=1))
        weights = np.where(has_verdict, self._weights, 0.0)
        if blend == "trimmed":
            rows = np.flatnonzero(has_verdict.sum(axis=1) >= _FEWEST_TRIMMED)
            for outermost in (np.nanargmin(verdicts, axis=1), -1 - np.nanargmax(verdicts[:, ::-1], axis=1)):
                weights[rows, outermost[rows]] = 0.0
        return np.asarray((weights * np.where(has_verdict, verdicts, 0.0)).sum(axis=1) / weights.sum(axis=1))

    def parts(self, sums: Floats, level: Level) -> dict[str, object]:
        """Return each member's verdict, or the mean of its verdicts with their number, and α over the members."""
        of_members = sums[len(_OWN_COLUMNS) :].reshape(-1, 2).tolist()
        means = [total / count if count else None for total, count in of_members]
        named = zip(self.member_names, means, strict=True)
        if level is Level.REPLY:
            return {"verdicts": dict(named)}
        alpha = float(alpha_of(sums))
        return {
            "replies": float(sums[1]),
            "alpha": alpha if np.isfinite(alpha) else None,
            "verdicts": dict(named),
            "missing": {
                name: int(sums[1] - count)
                for name, (_, count) in zip(self.member_names, of_members, strict=True)
                if count < sums[1]
            },
        }

    def verdicts_of(self, statistics: Floats) -> Floats:
        """Return each member's verdict (rows, members), NaN where it has none."""
        of_members = statistics[:, len(_OWN_COLUMNS) :].reshape(len(statistics), -1, 2)
        return np.where(of_members[..., 1] == 1, of_members[..., 0], np.nan)

    @property
    def member_names(self) -> list[str]:
        """The members with their numbers, and the models that they name."""
        named = (
            (member.name, member.settings.get("model", "").partition("#")[0].partition("@")[0])
            for member in self.components
        )
        return [f"{number} {name}{f' {model}' if model else ''}" for number, (name, model) in enumerate(named, start=1)]

    def problem_of(self, reply: str, prepared: Prepared, item_place: int) -> Problem:
        """Return why the first member has no verdict: none has."""
        assert isinstance(prepared, PreparedComponents)
        return self.component_problem(reply, prepared, item_place, 0) or self.undefined()

    def reasons(self, reply: str, references: References) -> list[dict[str, object]] | None:
        """Return the reasons of the members that gave some."""
        of_members = list[dict[str, object]]()
        for place, (name, member) in enumerate(zip(self.member_names, self.components, strict=True)):
            own = references.components[place]
            reasons = member.reasons(reply, own) if isinstance(own, References) else None
            of_members += [{"member": name, **reason} for reason in reasons or ()]
        return of_members or None

    def require_passport(self) -> None:
        """Raise NotAllowed unless every judge among the members has a passport."""
        for member in self.components:
            member.require_passport()

    def remarks(self) -> tuple[str, ...]:
        """Return the remarks of the members."""
        remarks = dict.fromkeys(remark for member in self.components for remark in member.remarks())
        if self._own["norm"] == "test":
            remarks[f"{self.name} with norm=test: a score depends on which replies are scored together with it"] = None
        return tuple(remarks)

    def remarks_on(self, sums: Floats) -> tuple[str, ...]:
        """Return how many verdicts of each member are missing."""
        missing = self.parts(sums, Level.CORPUS)["missing"]
        assert isinstance(missing, dict)
        return tuple(
            f"{self.name}: member {name} has no verdict on {count:,} of {int(sums[1]):,} replies"
            for name, count in missing.items()
        )


# ── α from sums ───────────────────────────────────────────────────────────────────────────────────────────────────────


def _alpha_sums(plain: Floats, has_verdict: Floats) -> tuple[Floats, Floats, Floats, Floats]:
    """Return, for each row with two verdicts or more, their number, sum, sum of squares, and squared differences.

    Differences are those of ordered pairs within the row, each divided by one less than the row's number.
    """
    counts, total, squares = has_verdict.sum(axis=1), plain.sum(axis=1), (plain**2).sum(axis=1)
    is_pairable = counts > 1
    within = 2 * (counts * squares - total**2) / np.maximum(counts - 1, 1)
    used = (counts, total, squares, np.maximum(within, 0.0))
    first, second, third, fourth = (np.where(is_pairable, one, 0.0) for one in used)
    return first, second, third, fourth


def alpha_of(sums: Floats) -> Floats:
    """Return Krippendorff's α of a panel's members from its sums (…, columns); NaN where all verdicts are equal."""
    count, total, squares, within = (sums[..., place] for place in range(3, 7))
    with np.errstate(invalid="ignore", divide="ignore"):
        expected = 2 * (count * squares - total**2) / (count * (count - 1))
        alpha = 1 - within / count / expected
    return np.asarray(np.where(expected > 10.0**-_DIGITS, alpha, np.nan))


# ── Building ──────────────────────────────────────────────────────────────────────────────────────────────────────────


def _members(name: str, text: str, source: VectorOpener | None) -> tuple[Metric, ...]:
    parts = text.split(BETWEEN_MEMBERS)
    if len(parts) < 2:
        raise Usage(
            f"a {name} has two members or more, and of={text or '…'} lists {len(parts) if text else 'none'}",
            remedy=f"{name}:of=judge;model=NAME+judge;model=OTHER+chrf",
        )
    return tuple(_member(name, part, source) for part in parts)


def _member(name: str, part: str, source: VectorOpener | None) -> Metric:
    where = f"{name}: member {part}"
    specification: Specification = part_of(part, where)
    if specification.name == name:
        raise Usage(f"{where}: a {name} is not a member of another", remedy="list its members")
    return built_part(where, lambda: build(specification, None, source))


def _declared_range(name: str, member: Metric) -> Range:
    info = member.info
    if info.high is None:
        raise Usage(f"{name}: scores of {member.name} have no upper end", remedy="norm=test, or another member")
    return Range(float(info.low), float(info.high))


def _weights(name: str, settings: Mapping[str, str], members: int) -> Floats:
    """Return the weight of each member; all are 1 unless blend=weighted."""
    text, is_weighted = settings["weights"], settings["blend"] == "weighted"
    if is_weighted == (text == "equal"):
        remedy = "weights=2+1 for two members" if is_weighted else "blend=weighted, or leave weights out"
        raise Usage(f"{name}: blend={settings['blend']}, weights={text}", remedy=remedy)
    if not is_weighted:
        return np.ones(members)
    numbers = [decimal(part.strip()) for part in text.split(BETWEEN_MEMBERS)]
    weights = [number for number in numbers if number is not None and number > 0]
    if len(weights) != members or len(numbers) != members:
        raise Usage(
            f"{name}: weights={text}, and there are {members} members",
            remedy=f"a number above 0 for each: {BETWEEN_MEMBERS.join([shortest(2), *['1'] * (members - 1)])}",
        )
    return np.array(weights)


def _span(
    member: Metric, place: int, replies: Sequence[str], references: Sequence[References], item_places: Indexes
) -> Range:
    """Return the least and the largest value that a member gives to replies; those of no item do not count."""
    chosen = references_of_component(references, place)
    numbers = {item: number for number, (item, _) in enumerate(chosen)}
    rows = [row for row, item in enumerate(item_places.tolist()) if item in numbers]
    places = np.array([numbers[int(item_places[row])] for row in rows], dtype=np.int64)
    prepared, which = member.prepare([own for _, own in chosen]), np.arange(len(rows), dtype=np.int64)
    sums = member.statistics([replies[row] for row in rows], prepared, which, places)
    values = member.values(sums, Level.REPLY)
    finite = values[np.isfinite(values)]
    if not len(finite):
        return Range(0.0, 1.0)  # it has no verdict at all, which is counted
    return Range.of_ends(
        float(finite.min()), float(finite.max()), what=f"norm=test: by {member.name}, all {len(finite):,} replies"
    )
