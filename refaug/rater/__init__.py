"""Networks that judge replies: raters of four kinds, the unreferenced part of RUBER, and the VHRED of ADEM.

The main names:

- `nn.build.train_rater`: trains a rater
- `cross.build.train_cross`: trains a rater that is a Transformer
- `dual.build.train_dual`: trains one with a tower for turns and one for replies
- `frozen.build.train_linear`: makes one in closed form over the vectors of an encoder
- `rating.Rater`: rates with it
- `ruber.build.train_ruber`: trains a ruber
- `adem.vhred.artefact.Vhred`: a pre-trained VHRED, which turns dialogues into vectors.
"""
