"""Ratings of candidates by a rater."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from refaug.library.results.parts import ArtefactVersions, FrameKind, html_table, make_frame


@dataclass(frozen=True, kw_only=True, repr=False)
class Ratings:
    """For each pair the ratings of its candidates, from -1 to 1, in the order of the input."""

    ratings: tuple[tuple[float, ...], ...]
    versions: ArtefactVersions
    warnings: tuple[str, ...] = ()

    def __iter__(self) -> Iterator[tuple[float, ...]]:
        return iter(self.ratings)

    def __len__(self) -> int:
        return len(self.ratings)

    def __getitem__(self, pair: int) -> tuple[float, ...]:
        return self.ratings[pair]

    def to_dict(self) -> dict[str, object]:
        """Return all of it as plain objects."""
        return {
            "ratings": [list(of_pair) for of_pair in self.ratings],
            "versions": {"rater": self.versions.rater},
            "warnings": list(self.warnings),
        }

    def to_frame(self, kind: FrameKind = "pandas") -> Any:
        """Return a frame with a row for each candidate: the place of its pair, its own, and its rating."""
        return make_frame(self._rows(), kind, columns=("pair", "candidate", "rating"))

    def to_pandas(self) -> Any:
        """Return `to_frame("pandas")`."""
        return self.to_frame("pandas")

    def _rows(self) -> list[dict[str, object]]:
        return [
            {"pair": pair, "candidate": place, "rating": rating}
            for pair, of_pair in enumerate(self.ratings)
            for place, rating in enumerate(of_pair)
        ]

    def __repr__(self) -> str:
        count = sum(map(len, self.ratings))
        return f"Ratings({len(self.ratings):,} pairs, {count:,} candidates, rater={self.versions.rater!r})"

    def _repr_html_(self) -> str:
        """Return a table for notebooks: a row for each candidate."""
        rows = [list(row.values()) for row in self._rows()]
        return html_table(f"Ratings by {self.versions.rater}", ("pair", "candidate", "rating"), rows, self.warnings)
