"""Whole conversations with ratings: read, turned into numbers, and judged by the hybrid metric or turn by turn.

The main names:

- `reading.read_conversations`: the conversations of a file, and what is wrong with the others
- `judged.judge_turns`: scores of every reply of a conversation, in its context
- `hybrid_report.hybrid_report`: how far the hybrid metric agrees with people on bots that its fit has not seen
- `hybrids.open_hybrid`: a hybrid metric that was fitted and kept.
"""
