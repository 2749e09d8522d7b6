"""Options of conversations, their encoders and the hybrid metric, with limits and texts, for every face.

The main names:

- `conversation_source.ConversationSource`: where conversations lie, and how a file of them is read
- `hybrid_settings.EncoderRequest`: the encoders of the hybrid metric
- `hybrid_settings.HybridSettings`: how it is fitted and tested
- `conversation_source.TurnReferences`: how references of turns are found.
"""

__all__ = ["conversation_source", "hybrid_settings"]
