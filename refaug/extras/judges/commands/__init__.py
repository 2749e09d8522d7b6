"""The commands about judges, behind an endpoint, fitted to ratings, or ADEM, a file a noun.

The main names:

- `judge.check_command`: `refaug judge check`
- `judge.compare_command`: `refaug judge compare`
- `judge_fit.train_command`: `refaug train judge-fit`.
"""
