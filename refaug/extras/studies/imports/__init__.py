"""Studies that were run elsewhere, read as the records of this one.

The main names:

- `rated_conversations.imported_conversations`: rated conversations in JSONL, such as ji2022_run1
- `rated_conversations.ImportedStudy`: their tasks, and the protocol that they stand for
- `rated_conversations.imported_chat_rows`: chats in CSV with the columns of neural_chat_web
- `rated_conversations.protocol_sha256`: the hash by which tasks name that protocol.
"""
