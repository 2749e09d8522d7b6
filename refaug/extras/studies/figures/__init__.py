"""The figures of a study, as plain values: means of bots, comparisons, pairs, agreement of people.

The main names:

- `means.bot_means`: means with intervals over participants, and the differences between bots
- `disagreements.pair_figures`: wins, losses and ties of every pair, and Bradley–Terry strengths
- `disagreements.rating_agreement`: how far participants agree with each other.
"""
