"""The first score: one reply, beside references that the server finds and weighs.

REFAUG_URL=http://127.0.0.1:8000 python first_score.py
"""

from refaug_client import Client

with Client() as refaug:
    test_item = {
        "utterance": "Where do you buy tea?",
        "references": ["At the market."],
        "replies": {"mine": "At the shop."},
    }
    scores = refaug.score([test_item], metric="upsilon-bleu")
    print(scores.corpus, scores.signature)
