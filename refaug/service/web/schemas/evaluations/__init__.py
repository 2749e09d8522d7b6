"""Models of uploads and evaluations.

The main names:

- `uploads.UploadOut`: an uploaded file
- `evaluations.EvaluationOut`: an evaluation with its summary
- `scored_replies.ScoredRepliesOut`: a page of replies.
"""

__all__ = ["evaluations", "scored_replies", "uploads"]
