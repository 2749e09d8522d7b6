"""Scores while a model trains: the scorer, its queue and cache, and rewards.

The main names:

- `scorer.Scorer`: takes replies and returns their scores later
- `rewards.Reward`: scores as rewards
- `pending.Pending`: scores that are on their way.
"""
