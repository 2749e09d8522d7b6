"""Without a server: start one for a block, where refaug is installed, and stop it at the end.

python own_server.py refaug-data
"""

from __future__ import annotations

import sys

from refaug_client import Client


def main(home: str) -> None:
    test_item = {
        "utterance": "Where do you buy tea?",
        "references": ["At the market."],
        "replies": {"mine": "At the shop."},
    }
    with Client.local(home=home) as refaug:  # on a Unix socket, which no other user can reach
        print(refaug.health().version, [index.name for index in refaug.artefacts.list("index")])
        print(refaug.score([test_item], metric="bleu").corpus)


if __name__ == "__main__":
    main(*sys.argv[1:])
