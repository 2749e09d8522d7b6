"""The routes of conversations.

The main names:

- `hybrids.router`: the routes
- `hybrids.score_by_hybrid`: POST /v1/hybrids/{name}/scores
- `hybrids.HybridScoresIn`: its body.
"""

__all__ = ["hybrids"]
