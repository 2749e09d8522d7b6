"""The API as plain values: what requests hold, the calls, and what answers hold.

The main names:

- `items.Item`: an item of a request
- `calls.score`: the call of POST /v1/scores
- `models.Scores`: its answer.
"""

__all__ = ["calls", "items", "models", "retrieval"]
