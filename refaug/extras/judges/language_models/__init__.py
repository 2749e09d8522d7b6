"""Language models behind an endpoint as judges of replies: rubrics, questions, and what becomes of the answers.

The main names:

- `rubric.Rubric`: what is judged and on which scale, from a file
- `pointwise.PointwiseJudge`: the judge of the metric `judge`
- `judge_files.find_judge`: a judge by its name, or by the path of its file.
"""

__all__ = [
    "answer_reading",
    "asking",
    "bias",
    "check",
    "judge_files",
    "pairwise",
    "pointwise",
    "rubric",
]
