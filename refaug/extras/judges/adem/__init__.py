"""Fit ADEM to rated items: from test files to a published scorer and its report.

The main names:

- `training.rated_file`: the rated replies of a test file as the scorer learns from them
- `training.train_adem`: rated files to a published adem
- `training.leave_one_out`: agreement on each group of files by scorers that were fitted to the other files.
"""

__all__ = ["training"]
