"""Nearest neighbours among vectors: FAISS and the projection in front of it.

The main names:

- `index_builder.AnnIndex`: searches
- `index_builder.AnnBuilder`: trains and fills an index
- `index_kinds.AnnKind`: a kind of index by FAISS's name.
"""
