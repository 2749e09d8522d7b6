"""Memory: caches of bounded size, the size of objects, and the collector of garbage.

The main names:

- `bounded_cache.BoundedCache`: the most recently used values, up to a number or a size
- `bounded_cache.MemoryCounter`: the bytes that arrays, texts and tables take
- `compact_texts.CompactTexts`, `compact_texts.SeenLines`: texts and hashes of texts without an object each
- `garbage.freeze_living`: keeps what is alive out of the collections of garbage.
"""

__all__ = ["bounded_cache", "compact_texts", "garbage"]
