"""Trainings of networks by epochs.

The main names:

- `train_rater.TrainRater`, `train_ruber.TrainRuber`
- `training_options.TrainingOptions`: what all of them have.
"""

__all__ = ["train_rater", "train_ruber", "training_options"]
