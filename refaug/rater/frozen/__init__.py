"""Raters over the sentence vectors of an encoder, which stays as it is: a linear one in closed form.

The main names:

- `linear.fit_linear`: the closed form
- `build.train_linear`: logs to a published rater
- `artefact.FrozenRater`: rates with it.
"""
