"""The bounded cache beside a plain model of it."""

from __future__ import annotations

import random
from concurrent.futures import ThreadPoolExecutor

import pytest

from refaug.core.memory import BoundedCache


def size_of(key: str, numbers: bytes) -> int:
    return len(key) + len(numbers)


class ModelCache:
    """The same cache as lists: the most recently used entry stands last."""

    def __init__(self, most_bytes: int) -> None:
        self.most_bytes, self.entries = most_bytes, list[tuple[str, bytes]]()

    def get(self, key: str) -> bytes | None:
        for entry in self.entries:
            if entry[0] == key:
                self.entries.remove(entry)
                self.entries.append(entry)
                return entry[1]
        return None

    def put(self, key: str, numbers: bytes) -> None:
        if size_of(key, numbers) > self.most_bytes:
            return
        self.entries = [entry for entry in self.entries if entry[0] != key] + [(key, numbers)]
        while self.size > self.most_bytes:
            del self.entries[0]

    @property
    def size(self) -> int:
        return sum(size_of(*entry) for entry in self.entries)


@pytest.mark.parametrize("most_bytes", [0, 1, 40, 200])
def test_the_cache_answers_as_its_model_at_every_step(most_bytes: int) -> None:
    rng = random.Random(most_bytes)
    cache, model = BoundedCache[str, bytes](most_bytes, size_of), ModelCache(most_bytes)
    stored = {f"k{number}": bytes(rng.randrange(60)) for number in range(30)}  # a key has one value, as texts have
    for _ in range(3_000):
        key = rng.choice(list(stored))
        if rng.random() < 0.5:
            assert cache.get(key) == model.get(key)
        else:
            cache.put(key, stored[key])
            model.put(key, stored[key])
        assert (cache.size, len(cache)) == (model.size, len(model.entries))
        assert cache.size <= most_bytes


def test_an_entry_that_is_too_large_drops_no_other_one() -> None:
    cache = BoundedCache[str, bytes](10, size_of)
    cache.put("a", bytes(4))
    cache.put("b", bytes(10))
    assert (cache.get("a"), cache.get("b"), cache.size) == (bytes(4), None, 5)


def test_putting_a_value_returns_what_it_leaves_no_room_for() -> None:
    cache = BoundedCache[str, bytes](10, size_of)
    assert [list(cache.put(key, bytes(2))) for key in "abc"] == [[], [], []]
    assert cache.get("a") == bytes(2)
    assert list(cache.put("d", bytes(5))) == [("b", bytes(2)), ("c", bytes(2))]
    assert (list(cache), cache.size) == (["a", "d"], 9)


def test_without_sizes_the_limit_is_a_number_of_values() -> None:
    cache = BoundedCache[str, int](2)
    assert [list(cache.put(key, number)) for number, key in enumerate("aba")] == [[], [], []]
    assert cache.items() == [("b", 1), ("a", 2)]
    assert list(cache.put("c", 3)) == [("b", 1)]
    assert (len(cache), cache.size, "b" in cache, "a" in cache) == (2, 2, False, True)
    assert list(BoundedCache[str, int](0).put("a", 1)) == []


def test_looking_at_entries_is_no_use_of_them() -> None:
    cache = BoundedCache[str, int](2)
    cache.put("a", 1)
    cache.put("b", 2)
    assert ("a" in cache, cache.items(), list(cache)) == (True, [("a", 1), ("b", 2)], ["a", "b"])
    assert list(cache.put("c", 3)) == [("a", 1)]


def test_removed_entries_give_their_room_back() -> None:
    cache = BoundedCache[str, bytes](10, size_of)
    cache.put("a", bytes(4))
    cache.put("b", bytes(3))
    assert (cache.pop("a"), cache.pop("a"), cache.size) == (bytes(4), None, 4)
    cache.clear()
    assert (cache.size, len(cache), cache.get("b")) == (0, 0, None)


def test_a_value_that_is_stored_again_replaces_the_first() -> None:
    cache = BoundedCache[str, bytes](10, size_of)
    cache.put("a", b"long text")
    cache.put("a", b"short")
    assert (cache.get("a"), cache.size, len(cache)) == (b"short", 6, 1)


def test_threads_that_use_one_cache_get_the_values_that_were_stored() -> None:
    cache = BoundedCache[str, bytes](150, size_of)
    stored = {f"k{number}": str(number).encode() * (number % 5) for number in range(40)}

    def use(seed: int) -> int:
        rng, hits = random.Random(seed), 0
        for _ in range(2_000):
            key = rng.choice(list(stored))
            cached = cache.get(key)
            assert cached in {None, stored[key]}
            hits += cached is not None
            cache.put(key, stored[key])
        return hits

    with ThreadPoolExecutor(4) as pool:
        assert min(pool.map(use, range(4))) > 0
    kept = [size_of(key, numbers) for key in stored if (numbers := cache.get(key)) is not None]
    assert (sum(kept), len(kept)) == (cache.size, len(cache))
    assert cache.size <= 150
