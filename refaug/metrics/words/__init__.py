"""Metrics that compare words and n-grams: BLEU and its weighted forms, chrF, CIDEr, METEOR, ROUGE, TER.

The main names:

- `bleu.Bleu`: BLEU, also with weighted references
- `ngrams.credit_rows`: where an n-gram gets its weight
- `chrf.Chrf`: chrF.
"""
