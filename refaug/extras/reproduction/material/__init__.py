"""The material of the experiments: rated sets, logs, indexes and raters, kinds of references, metrics on them.

The main names:

- `rated_sets.read_sets`: the sets with ratings of people
- `chain.Chain`: the index and rater of a log, built once
- `reference_kinds.Pool`: the references of a set, by kind.
"""
