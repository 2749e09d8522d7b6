"""The scorer of ADEM: a bilinear form on the vectors of a frozen encoder, fitted to people's ratings.

The main names:

- `rated_triples.RatedTriples`: contexts, references and replies with their ratings, as the scorer learns from them
- `fitting.fit_scorer`: from rated triples to a scorer
- `adem.Adem`: a scorer with its encoder, which scores triples.
"""
