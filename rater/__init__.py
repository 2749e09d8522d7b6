"""Networks that judge replies: the NN-rater, and the unreferenced part of RUBER.

The main names:

- `nn.build.train_rater`: trains a rater
- `nn.rate.Rater`: rates with it
- `ruber.build.train_ruber`: trains a ruber.
"""

__all__ = ["language_coverage", "network_folder", "nn", "ruber", "training"]
