"""Trainings of networks by epochs.

The main names:

- `train_rater.TrainRater`: a network that rates references, and `train_ruber.TrainRuber`
- `pretrain_vhred.PretrainVhred`: a network that replies, and `train_adem.TrainAdem` of its encodings
- `training_options.TrainingOptions`: what raters and rubers have; `NetworkOptions`: what all have.
"""

__all__ = ["pretrain_vhred", "train_adem", "train_rater", "train_ruber", "training_options"]
