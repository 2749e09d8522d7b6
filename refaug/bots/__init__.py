"""Bots: what can reply to a dialogue: a bot that retrieves replies from an index, and a network that writes them.

The main names:

- `replier.Replier`: what every kind of bot can do
- `specification.BotSpecification`: a bot by name, such as `retrieval:chat,mode=bm25-utterance`
- `endpoint.client.ask_all`: language models behind an endpoint, which judges ask, too
- `stored.specification.StoredBot`: a bot by its own name, with a specification that is hashed
- `kinds.open_bot`: a specification to a bot that replies.
"""
