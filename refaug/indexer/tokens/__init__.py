"""Texts as token codes: compiled tokenizers, the hash table of words, and the choice of a tokenizer.

The main names:

- `tokens.Splitter`: cuts many texts at once
- `vocabulary.Vocabulary`: the codes of words
- `vocabulary.default_tokenizer_for`: the tokenizer that suits logs.
"""

__all__ = ["tokens", "vocabulary"]
