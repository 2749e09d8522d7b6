"""Exports of a study: its tasks, and the files that other programs and commands read.

The main names:

- `formats.export_study`: the bytes of one format, piece by piece.
"""

__all__ = ["chat_records", "dialogue_pairs", "formats", "preferences", "rated_items", "reference_weights"]
