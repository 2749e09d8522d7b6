"""Pairs to a published index version, and searching one: word vectors, sentence vectors, FAISS, BM25."""
