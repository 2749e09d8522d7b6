"""What is said of conversations, their encoders and the hybrid metric: options with limits and texts, for every face.

The main names:

- `conversation_source.ConversationSource`: where conversations lie, and how a file of them is read
- `encoder_request.EncoderRequest`: the encoders of the hybrid metric
- `hybrid_settings.HybridSettings`: how it is fitted and tested
- `turn_references.TurnReferences`: how references of turns are found.
"""

__all__ = ["conversation_source", "encoder_request", "hybrid_settings", "turn_references"]
