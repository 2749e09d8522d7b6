"""BM25 over the utterances of an index: postings, statistics, exact scores.

The main names:

- `index.Bm25Index`: searches
- `index.build_bm25`: builds the postings of a segment
- `scores.Bm25Settings`: the parameters of the formula.
"""
