"""Verification of score files: what their signatures name, and what is at hand, compared part by part.

The main names:

- `score_file.sealed`: the JSON of scores with its format and checksum
- `score_file.ScoreFile`: scores that were written, read back
- `verification.verify`: a score file with its items, reproduced.
"""

__all__ = [
    "artefact_parts",
    "part_states",
    "reference_differences",
    "score_details",
    "score_differences",
    "score_file",
    "verification",
]
