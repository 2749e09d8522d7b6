"""The content of answers, as frozen dataclasses: typed, in the order sent, and with everything that came.

The main names:

- `scores.Scores`: scores of systems, with intervals and comparisons
- `references.References`: the references of items
- `jobs.Job`: a job and its state.
"""
