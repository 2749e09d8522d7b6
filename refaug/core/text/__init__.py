"""Texts: normalisation, tokenizers, and training a tokenizer.

The main names:

- `normalisation.normalise`: the form in which texts are compared
- `tokenizers.get_tokenizer`: a tokenizer by its name
- `tokenizer_training.train_sentencepiece`: a new SentencePiece model.
"""
