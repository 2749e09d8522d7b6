"""Networks that judge replies: the NN-rater, the cross rater, the unreferenced part of RUBER, and the VHRED of ADEM.

The main names:

- `nn.build.train_rater`: trains a rater
- `cross.build.train_cross`: trains a rater that is a Transformer
- `rating.Rater`: rates with it
- `ruber.build.train_ruber`: trains a ruber
- `adem.vhred.artefact.Vhred`: a pre-trained VHRED, which turns dialogues into vectors.
"""

__all__ = [
    "adem",
    "cross",
    "language_coverage",
    "network_folder",
    "nn",
    "rating",
    "rating_settings",
    "ruber",
    "stored_raters",
    "training",
]
