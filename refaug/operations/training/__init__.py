"""Trainings of networks by epochs.

The main names:

- `train_rater.TrainRater`: a network that rates references
- `train_ruber.TrainRuber`: one that tells how related a reply is to its utterance
- `training_options.TrainingOptions`: what raters and rubers have; `NetworkOptions`: what all have.
"""
