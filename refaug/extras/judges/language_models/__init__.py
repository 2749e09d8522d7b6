"""Language models behind an endpoint as judges of replies: rubrics, questions, and what becomes of the answers.

The main names:

- `rubric.Rubric`: what is judged and on which scale, from a file
- `pointwise.PointwiseJudge`: the judge of the metric `judge`
- `pairwise.PairwiseJudge`: which of two replies is better.
"""
