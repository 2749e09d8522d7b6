"""Word vectors and encoders: opening them and encoding texts with them.

The main names:

- `word_vectors.open_word_vectors`: word vectors from a file
- `encoders.open_encoder`: an ONNX encoder from a folder
- `encoders.Encoder`: what every encoder offers.
"""

__all__ = ["encoder_files", "encoders", "shared_encoders", "word_vectors"]
