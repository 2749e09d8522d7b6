"""Steps that routes share: reading items, leasing versions, scoring, freezing, queueing jobs.

The main names:

- `score_request.ScoreRequest`: a request for scores, step by step
- `request_items.parse_items`: the items of a request
- `request_lease.open_lease`: the index and the rater that it asks.
"""
