"""A fitted hybrid metric as an artefact with versions: written, opened, and used to score other conversations.

The main names:

- `fitting.fit_hybrid`: fit, measure, and publish a version
- `stored.open_hybrid`: an opened version
- `scoring.score_conversations`: scores by a version, without what it was fitted to.
"""

__all__ = ["fitting", "scoring", "stored", "stored_hybrids"]
