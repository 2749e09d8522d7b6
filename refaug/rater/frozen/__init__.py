"""Raters over the sentence vectors of an encoder, which stays as it is: one in closed form, and small networks.

The main names:

- `linear.fit_linear`: the closed form
- `towers.TowerNetwork`: the small networks
- `build.train_linear`, `build.train_towers`: logs to a published rater
- `artefact.FrozenRater`: rates with it.
"""
