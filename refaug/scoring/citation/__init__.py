"""Citing scores: a sentence, BibTeX and the signature for a score file, a signature or a frozen set.

The main names:

- `citation.cite_signature`, `citation.cite_set`: what to write beside scores
- `citation.signatures_in`: the signatures of a score file
- `citation.Paper`: a paper, in a sentence and as BibTeX.
"""
