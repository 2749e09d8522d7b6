"""Vectors of words and sentences: GloVe training, and the vector of a text.

The main names:

- `training.train_vectors`: trains and publishes word vectors
- `glove.train_glove`: the training itself
- `sentence_vectors.embed`: the vector of a text from its words.
"""
