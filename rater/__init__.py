"""Networks that judge replies: the NN-rater, the unreferenced part of RUBER, and the VHRED of ADEM.

The main names:

- `nn.build.train_rater`: trains a rater
- `nn.rate.Rater`: rates with it
- `ruber.build.train_ruber`: trains a ruber
- `adem.vhred.artefact.Vhred`: a pre-trained VHRED, which turns dialogues into vectors.
"""

__all__ = ["adem", "language_coverage", "network_folder", "nn", "ruber", "training"]
