"""The figures of a study, as plain values: means, pairs, agreement of people, their way through the tasks.

The main names:

- `means.bot_means`: means with intervals over participants, and the differences between bots
- `disagreements.pair_figures`: wins, losses and ties of every pair, and Bradley–Terry strengths
- `course.task_steps`: how many participants came to each task and finished it
- `disagreements.rating_agreement`: how far participants agree with each other.
"""
