"""Long lists of a score file that stay on the disk: parts of its JSON, found by where each begins."""

from __future__ import annotations

import mmap
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, overload

import numpy as np
import orjson
from numpy.typing import NDArray

from refaug.core.processes.kept import cached_property
from refaug.metrics.base import Floats


class StoredList(Sequence[Any]):
    """A list of a JSON file whose entries are parsed when they are asked for; none is kept."""

    def __init__(self, content: mmap.mmap, starts: NDArray[np.int64]) -> None:
        self._content, self._starts = content, starts  # (entries + 1,): a byte separates an entry from the next

    def __len__(self) -> int:
        return len(self._starts) - 1

    @overload
    def __getitem__(self, place: int) -> Any: ...
    @overload
    def __getitem__(self, place: slice) -> list[Any]: ...
    def __getitem__(self, place: int | slice) -> Any:
        if isinstance(place, slice):
            return [self[each] for each in range(*place.indices(len(self)))]
        number = place + len(self) if place < 0 else place
        if not 0 <= number < len(self):
            raise IndexError(place)
        return self.entry(number)

    def entry(self, number: int, name_bytes: int = 0) -> Any:
        """Return an entry; before the next one stand a comma and, in an object, so many bytes of its name."""
        return orjson.loads(self._content[int(self._starts[number]) : int(self._starts[number + 1]) - 1 - name_bytes])

    def __iter__(self) -> Iterator[Any]:
        for place in range(len(self)):
            yield self[place]

    def has_field(self, name: str) -> bool:
        """Whether an entry has a field of this name, at any depth."""
        sought = orjson.dumps(name) + b":"
        return self._content.find(sought, int(self._starts[0]), int(self._starts[-1])) >= 0


class EntryIds(Sequence[str]):
    """The ids of the entries of a list, and the place of each."""

    def __init__(self, ids: Sequence[str]) -> None:
        self._ids = ids

    def __len__(self) -> int:
        return len(self._ids)

    @overload
    def __getitem__(self, place: int) -> str: ...
    @overload
    def __getitem__(self, place: slice) -> Sequence[str]: ...
    def __getitem__(self, place: int | slice) -> str | Sequence[str]:
        return self._ids[place]

    @cached_property
    def places(self) -> Mapping[str, int]:
        """The place of each id."""
        return {name: place for place, name in enumerate(self._ids)}


class StoredRows(StoredList):
    """A list of objects whose ids are known, and of replies their scores, without reading them."""

    def __init__(
        self, content: mmap.mmap, starts: NDArray[np.int64], ids: EntryIds, scores: Floats | None = None
    ) -> None:
        super().__init__(content, starts)
        self.ids, self._scores = ids, scores

    def scores_of(self, names: Sequence[str]) -> Floats:
        """Return the scores of these ids; NaN where there is none."""
        assert self._scores is not None, "only replies have scores"
        places = np.fromiter((self.ids.places.get(name, -1) for name in names), dtype=np.int64, count=len(names))
        return np.where(places < 0, np.nan, self._scores[places]) if len(self) else np.full(len(names), np.nan)


class RowsById(Mapping[str, Mapping[str, Any]]):
    """The objects of a list by their ids, in the order of the list."""

    def __init__(self, rows: StoredRows) -> None:
        self._rows = rows

    def __getitem__(self, name: str) -> Mapping[str, Any]:
        row: Mapping[str, Any] = self._rows[self._rows.ids.places[name]]
        return row

    def __iter__(self) -> Iterator[str]:
        return iter(self._rows.ids)

    def __len__(self) -> int:
        return len(self._rows)

    def __contains__(self, name: object) -> bool:
        return name in self._rows.ids.places


class StoredEntries(Mapping[str, Any]):
    """An object of a JSON file whose fields are parsed when they are asked for."""

    def __init__(self, rows: StoredList, names: Sequence[str]) -> None:
        self._rows, self._names = rows, names
        self._places = {name: place for place, name in enumerate(names)}

    def __getitem__(self, name: str) -> Any:
        place = self._places[name]
        following = self._names[place + 1 : place + 2]
        return self._rows.entry(place, sum(len(orjson.dumps(each)) + 1 for each in following))

    def __iter__(self) -> Iterator[str]:
        return iter(self._places)

    def __len__(self) -> int:
        return len(self._places)
