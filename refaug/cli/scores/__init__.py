"""Commands on references and scores: refs, replies, score, sets, metrics, meta, diagnose, reproduce.

The main names:

- `score.score_command`: `refaug score`
- `sets.refs_command`: `refaug sets references`
- `meta.meta_command`: `refaug agreement`.
"""
