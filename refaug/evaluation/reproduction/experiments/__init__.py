"""The experiments of `refaug reproduce`, one a file.

The main names:

- `metrics.metrics`: the published method beside controls that could refute it
- `weights.weights`: whether weights help.
"""

__all__ = ["adem", "hybrid", "metrics", "multi_reference", "weights"]
