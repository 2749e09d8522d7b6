"""Indexes, raters, rubers and VHREDs of a home, opened by name.

The main names:

- `indexes.open_index`: an index by `name` or `name@version`
- `raters.open_rater`: a rater by name
- `rubers.open_ruber`: a ruber by name
- `vhreds.open_vhred`: a VHRED by name.
"""

__all__ = [
    "adems",
    "descriptions",
    "encoders",
    "indexes",
    "kinds",
    "packaged_encoders",
    "piece_vectors",
    "pins",
    "raters",
    "rubers",
    "shared_store",
    "stored_artefacts",
    "vhreds",
]
