"""The experiments of `refaug reproduce`, one a file.

The main names:

- `weights.weights`: whether weights help
- `stress.stress`: whether a gain survives controls
- `growth.growth`: what a larger log adds.
"""

__all__ = ["ablations", "conditions", "growth", "metrics", "multi_reference", "retrieval_modes", "stress", "weights"]
