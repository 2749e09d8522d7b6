"""Build an index version from pairs and search it: word vectors, sentence vectors, FAISS and BM25.

The main names:

- `building.build.build_index`: logs to a new version
- `search.index.ReferenceIndex`: an opened version
- `vectors.training.train_vectors`: word vectors by GloVe.
"""
