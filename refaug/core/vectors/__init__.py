"""Word vectors and encoders: opening them and encoding texts with them.

The main names:

- `word_vectors.open_word_vectors`: word vectors from a file
- `encoders.open_encoder`: an ONNX encoder from a folder
- `encoders.Encoder`: what every encoder offers
- `kept_vectors.Encodings`: the sentence vectors that a home keeps.
"""
