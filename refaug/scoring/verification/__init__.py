"""Verification of score files: what their signatures name, and what is at hand, compared part by part.

The main names:

- `verification.verify`: a score file with its items, reproduced
- `verification.Workplace`: where scores are made again
- `artefact_parts.Verification`: the parts, and what became of each.
"""
