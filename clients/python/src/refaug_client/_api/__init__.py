"""The API: what requests hold, the methods that send them, and what answers hold.

The main names:

- `items.Item`: an item of a request
- `resources.scoring.ScoringCalls`: the methods of a client, as `score`
- `models.scores.Scores`: what `score` returns.
"""
