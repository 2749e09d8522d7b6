"""Exports of a study: its tasks, and the files that other programs and commands read.

The main names:

- `formats.export_study`: the bytes of one format, piece by piece
- `formats.rated_items`: the items that `refaug agreement` reads
- `formats.reference_weights`: the weights of references that people said.
"""
