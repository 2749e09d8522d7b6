"""Write the log of which refaug-1's calibration is made: the dialogues of the package chitchat-dataset (MIT).

pip install chitchat-dataset==0.9.0
python bench/chitchat_dialogues.py chitchat.jsonl
python bench/chitchat_dialogues.py fifth.jsonl --every 5    # of which the index is made: a text takes time to encode

A turn is what one person wrote until the other answered. Conversations stand in the order of their keys, without empty
turns; those of fewer than two turns are left out. The package's version is the one whose file refaug_1.json names.
"""

from __future__ import annotations

import argparse
import hashlib
import json
from collections.abc import Iterator
from importlib.metadata import distribution
from pathlib import Path
from typing import Any

CALIBRATION = Path(__file__).parent.parent / "refaug/metrics/embeddings/refaug_1.json"


def turns_of(conversation: dict[str, Any]) -> list[str]:
    """Return the turns of a conversation, each with its messages in one line."""
    turns = [" ".join(" ".join(message["text"] for message in block).split()) for block in conversation["messages"]]
    return [turn for turn in turns if turn]


def lines_of(conversations: dict[str, dict[str, Any]]) -> Iterator[str]:
    """Yield a line for each dialogue of two turns or more."""
    dialogues = [turns_of(conversations[key]) for key in sorted(conversations)]
    for number, turns in enumerate(turns for turns in dialogues if len(turns) > 1):
        yield json.dumps({"id": f"c{number}", "turns": turns}) + "\n"


def main() -> None:
    """Write the file, and check that the calibration was made of it."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("out", type=Path)
    parser.add_argument("--every", type=int, default=1, metavar="N", help="write the first of every N dialogues")
    options = parser.parse_args()
    source = Path(str(distribution("chitchat-dataset").locate_file("chitchat_dataset/dataset.json")))
    content = "".join(lines_of(json.loads(source.read_text("utf-8")))).encode()
    expected = json.loads(CALIBRATION.read_text("utf-8"))["made_of"]["sha256"]
    if hashlib.sha256(content).hexdigest() != expected:
        raise SystemExit(f"{source} is of another version: refaug-1 was calibrated on chitchat-dataset 0.9.0")
    options.out.write_bytes(b"".join(content.splitlines(keepends=True)[:: options.every]))


if __name__ == "__main__":
    main()
