"""Trainings of networks by epochs.

The main names:

- `train_rater.TrainRater`, `train_ruber.TrainRuber`, `pretrain_vhred.PretrainVhred`,
  `train_adem.TrainAdem`
- `training_options.TrainingOptions`: what raters and rubers have; `NetworkOptions`: what all have.
"""

__all__ = ["pretrain_vhred", "train_adem", "train_rater", "train_ruber", "training_options"]
