"""Steps that routes share: reading items, retrieval, scoring, freezing, queueing jobs, pagination.

The main names:

- `score_request.ScoreRequest`: a request for scores, step by step
- `request_items.parse_items`: the items of a request
- `reference_retrieval.augment_items`: references for them.
"""

__all__ = [
    "audit_rows",
    "database_threads",
    "idempotency_keys",
    "job_queueing",
    "pagination",
    "reference_retrieval",
    "request_items",
    "score_request",
    "scoring_plan",
    "scoring_work",
    "set_freezing",
    "set_scoring",
]
