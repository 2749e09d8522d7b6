"""Commands on references and scores: refs, replies, score, sets, metrics, meta, diagnose, reproduce.

The main names:

- `score.score_command`: `refaug score`
- `refs.refs_command`: `refaug refs`
- `meta.meta_command`: `refaug meta`.
"""

__all__ = ["diagnose", "meta", "meta_tables", "metrics", "probe", "refs", "score", "sets"]
