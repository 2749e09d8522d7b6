"""Stress: replies that are altered so that a judge has to notice, and how far a metric's scores move.

The main names:

- `movement.altered`: the alterations by name
- `movement.stress`: the rows of every metric
- `movement.StressRow`: what one alteration does to the scores of a metric.
"""

__all__ = ["movement"]
