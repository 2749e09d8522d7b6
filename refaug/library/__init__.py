"""refaug in a Python program: the functions that `import refaug` offers, on one engine for the process.

The main names:

- `scoring.score`: scores of replies, as `refaug score` computes them
- `retrieval.references`: weighted references from an index
- `everyday.make_everyday_home`: a home that scores, from real dialogues
- `engine.engine_of`: the open indexes and raters of a home
- `nlgeval.NLGEval`: the metrics of nlg-eval under its names
- `hugging_face.EVALUATE_MODULE`: a metric for `evaluate`.
"""
