"""Scores while a model trains: the `Scorer`, its queue and cache, and rewards."""
