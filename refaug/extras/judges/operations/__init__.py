"""Trainings of ADEM and of the network that its encoder is taken from.

The main names:

- `pretrain_vhred.PretrainVhred`: a network that replies
- `train_adem.TrainAdem`: a scorer of its encodings
- `train_adem.TrainAdem.settings`: how it is fitted.
"""

__all__ = ["pretrain_vhred", "train_adem"]
