"""Indexes, raters and rubers of a home, opened by name."""
