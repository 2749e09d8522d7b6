"""Inputs too large for one request: batches, the threads and tasks that send them, and the merged answer.

The main names:

- `batches.cut`: batches of a large input
- `sending.WholeCall`: a call about them, several requests at once
- `streams.LargeScores`: merges the answers.
"""
