"""Nearest neighbours among vectors: FAISS and the projection in front of it.

The main names:

- `faiss_index.AnnIndex`: searches
- `index_builder.AnnBuilder`: trains and fills an index
- `index_kinds.AnnKind`: a kind of index by FAISS's name.
"""

__all__ = ["faiss_calls", "faiss_index", "index_builder", "index_kinds", "projection"]
