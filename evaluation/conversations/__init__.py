"""Whole conversations with ratings: read, turned into components, and judged by the hybrid metric.

The main names:

- `records.Conversation`: turns, their sides, and what a person said of the whole
- `reading.read_conversations`: the conversations of a file, and what is wrong with the others
- `hybrid_report.hybrid_report`: how far the hybrid metric agrees with people on bots that its fit has not seen.
"""

__all__ = ["hybrid_report", "reading", "records", "text_readers"]
