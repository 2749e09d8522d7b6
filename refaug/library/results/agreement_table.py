"""Agreement of metrics with people: a row for each metric on each test set."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, Self

from refaug.library.results.parts import ArtefactVersions, FrameKind, ItemProblem, html_table, make_frame

if TYPE_CHECKING:
    from refaug.agreement.records import AgreementRow, MeanRow, MetaResult

_MEAN: Final = "mean"  # the set of the rows that are means over all sets


@dataclass(frozen=True, kw_only=True, repr=False)
class MetricAgreement:
    """How far one metric agrees with the mean rating of people on one test set, or on average over all of them.

    `name` is also `length`, the length of the reply, and `human`, people against people.
    """

    set: str
    name: str
    replies: int
    spearman: float | None
    spearman_interval: tuple[float, float] | None
    pearson: float | None
    kendall: float | None
    partial_spearman: float | None  # with the length of the reply held fixed
    difference: float | None = None  # of Spearman, from the baseline
    difference_interval: tuple[float, float] | None = None
    is_baseline: bool = False

    def __repr__(self) -> str:
        number = "none" if self.spearman is None else f"{self.spearman:.3f}"
        return f"MetricAgreement({self.set}, {self.name}: spearman={number}, {self.replies:,} replies)"

    @classmethod
    def of(cls, set_name: str, row: AgreementRow | MeanRow) -> Self:
        """Read a row of `refaug agreement`."""
        difference = row.differences.get("spearman")
        return cls(
            set=set_name,
            name=row.name,
            replies=row.n,
            spearman=row.spearman.value,
            spearman_interval=_bounds(row.spearman),
            pearson=row.pearson.value,
            kendall=row.kendall.value,
            partial_spearman=row.partial_spearman.value,
            difference=difference.value if difference is not None else None,
            difference_interval=_bounds(difference),
            is_baseline=row.is_baseline,
        )


@dataclass(frozen=True, kw_only=True, repr=False)
class AgreementTable:
    """Agreement of all metrics with people, on all test sets."""

    rows: tuple[MetricAgreement, ...]
    baseline: str  # the metric that every other is compared with
    versions: ArtefactVersions = field(default_factory=ArtefactVersions)
    problems: tuple[ItemProblem, ...] = ()
    warnings: tuple[str, ...] = ()
    document: Mapping[str, Any] = field(default_factory=dict, compare=False)  # what `refaug agreement --json` prints

    def __getitem__(self, metric: str) -> MetricAgreement:
        """Return the row of a metric: on the only set, or the mean over several."""
        matches = [row for row in self.rows if row.name == metric]
        if matches:
            return matches[-1]
        raise KeyError(f"{metric!r}; there are: {', '.join(dict.fromkeys(row.name for row in self.rows))}")

    def __iter__(self) -> Iterator[MetricAgreement]:
        return iter(self.rows)

    def __len__(self) -> int:
        return len(self.rows)

    def to_dict(self) -> dict[str, object]:
        """Return all figures as `refaug agreement --json` prints them; a copy."""
        return copy.deepcopy(dict(self.document))

    def to_frame(self, kind: FrameKind = "pandas") -> Any:
        """Return a frame with a row for each metric on each set."""
        return make_frame(self._cells(), kind, columns=("set", "name", "spearman", "low", "high"))

    def to_pandas(self) -> Any:
        """Return `to_frame("pandas")`."""
        return self.to_frame("pandas")

    def _cells(self) -> list[dict[str, object]]:
        cells = []
        for row in self.rows:
            low, high = row.spearman_interval or (None, None)
            difference_low, difference_high = row.difference_interval or (None, None)
            cells.append({
                **{name: cell for name, cell in vars(row).items() if not name.endswith("_interval")},
                "low": low,
                "high": high,
                "difference_low": difference_low,
                "difference_high": difference_high,
            })  # fmt: skip
        return cells

    def __repr__(self) -> str:
        return "\n".join([f"AgreementTable({len(self.rows):,} rows)", *(f"  {row!r}" for row in self.rows)])

    def _repr_html_(self) -> str:
        """Return a table for notebooks: a row for each metric on each set."""
        columns = ("set", "name", "replies", "spearman", "low", "high", "pearson", "kendall", "partial_spearman")
        rows = [[row[name] for name in columns] for row in self._cells()]
        return html_table("Agreement with people", columns, rows, self.warnings)

    @classmethod
    def of(cls, meta: MetaResult, versions: Mapping[str, str], warnings: tuple[str, ...]) -> Self:
        """Read the result of `refaug agreement`; `warnings` come before its own."""
        rows = [MetricAgreement.of(set_result.name, row) for set_result in meta.sets for row in set_result.rows]
        means = [MetricAgreement.of(_MEAN, row) for row in meta.mean.rows] if meta.mean is not None else []
        listed = tuple(dict.fromkeys((*warnings, *meta.warnings)))
        return cls(
            rows=(*rows, *means),
            baseline=meta.baseline,
            versions=ArtefactVersions.of(versions),
            problems=tuple(map(ItemProblem.of, meta.bad_items)),
            warnings=listed,
            document={**meta.as_json(), "warnings": list(listed)},
        )


def _bounds(estimate: Any) -> tuple[float, float] | None:
    if estimate is None or estimate.low is None or estimate.high is None:
        return None
    return (estimate.low, estimate.high)
