"""The metrics of nlg-eval under its names: the same calls, keys and numbers, without Java, downloads or Theano.

The main names:

- `NLGEval`: the object, for many calls
- `compute_metrics`: the scores of a file of replies and files of references
- `compute_individual_metrics`: the scores of one reply.

`docs/coming-from.md` says which numbers are equal to nlg-eval's, and which metrics are left out.
"""

from refaug.library.nlgeval.evaluator import NamedScores, NLGEval, compute_individual_metrics, compute_metrics

__all__ = ["NLGEval", "NamedScores", "compute_individual_metrics", "compute_metrics"]
