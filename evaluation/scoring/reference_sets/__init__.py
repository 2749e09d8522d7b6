"""Frozen reference sets, and the drift of scores between index versions."""
