"""The items of the tests: replies of two systems, and a gold each, in words that the small home has references for."""

from __future__ import annotations

from serving import small_items

ITEMS = small_items(12, seed=5)  # d0 … d11
