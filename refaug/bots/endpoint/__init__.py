"""Language models behind an OpenAI-compatible endpoint: the client that bots and judges share.

The main names:

- `specification.Endpoint`: the address, model, limits and prices, as a file has them
- `client.ask_all`: many requests at once, with retries, a budget and stored answers
- `chat.ChatAnswer`: an answer, or `chat.Fault`, which says why there is none.
"""
