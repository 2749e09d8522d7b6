"""The NN-rater: its Bi-GRU network, its training, its artefact, and rating with it.

The main names:

- `model.BiGRURater`: the network, and `array_network.ArrayBiGRU` where torch is not installed
- `build.train_rater`: logs to a published rater
- `checkpoint.NNRater`: ratings of responses.
"""
