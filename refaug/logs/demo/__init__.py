"""The demo log and its test file: invented everyday dialogues, the same bytes for the same seed.

The main names:

- `generator.demo_dialogues`: the dialogues
- `demo_items.demo_items`: test items with ratings
- `topics.read_topics`: the topics, which lie in data files.
"""
