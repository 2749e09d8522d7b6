"""What stands in for the published encoders of the hybrid metric, or is one of them, brought by the user.

The main names:

- `opening.open_encoders`: the encoders that options name
- `opening.VectorReader`: what the components ask about texts
- `sentiment_readers.VaderSentiment` and its siblings: what reads sentiment.
"""

__all__ = ["opening", "sentiment_readers"]
