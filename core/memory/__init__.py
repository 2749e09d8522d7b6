"""Memory: caches of bounded size, and the size of objects.

The main names:

- `bounded_cache.BoundedCache`: the most recently used values, up to a number or a size
- `object_sizes.MemoryCounter`: the bytes that arrays, texts and tables take
- `object_sizes.MemoryCounter.add`: counts an object with everything that it refers to.
"""

__all__ = ["bounded_cache", "object_sizes"]
