"""The straightforward way to ingest a log: gzip, json, re, a set and pandas, by the rules of `refaug log ingest`.

It is the baseline of bench_ingest.py, run as a separate program: `python bench/plain_ingest.py SOURCE OUTPUT.parquet`.
"""

from __future__ import annotations

import gzip
import html
import json
import re
import sys
import unicodedata

import pandas as pd

CONTROL = re.compile(
    r"[\x00-\x08\x0e-\x1f\x7f-\x84\x86-\x9f\xad\u200b\u200e\u200f\u202a-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb]"
)
URL = re.compile(r"(?:https?://|ftp://|www\.)[^\s<>\"']+[^\s<>\"'.,;:!?)\]}]", re.IGNORECASE)
EMAIL = re.compile(r"[\w.+-]+@(?:[\w-]+\.)+[a-zA-Z]{2,24}")
USER = re.compile(r"(?<![\w@/.])@[A-Za-z0-9_][A-Za-z0-9_.-]*")
SPACES = re.compile(r"\s+")
DELETED = re.compile(r"[\[(]\s*(?:deleted|removed)\s*[\])]", re.IGNORECASE)
BOT = re.compile(r"\bI(?:'m| am) a (?:ro)?bot\b|\bbeep boop\b|performed automatically", re.IGNORECASE)
LONG_RUN = re.compile(r"[!-~]{101}")
PUNCTUATION = re.compile(r"[^\w<>$+=|~]+|_+")
DIGITS = re.compile(r"\d+")


def clean(text: str) -> str | None:
    """Apply all rules to one text; None for a text that is left out."""
    text = unicodedata.normalize("NFC", text)
    text = html.unescape(html.unescape(text))
    text = CONTROL.sub("", text)
    text = URL.sub("<url>", text)
    text = EMAIL.sub("<email>", text)
    text = USER.sub("<user>", text)
    text = SPACES.sub(" ", text).strip()
    if not text or len(text) > 2000 or DELETED.fullmatch(text) or BOT.search(text) or LONG_RUN.search(text):
        return None
    if len(text) > 16 and 2 * sum(map(str.isalnum, text)) < len(text) - text.count(" "):
        return None
    return text


def normalise(text: str) -> str:
    """Return the form in which texts are compared."""
    return PUNCTUATION.sub(" ", unicodedata.normalize("NFKC", text).casefold()).strip()


def main(source: str, output: str) -> None:
    """Read, clean, pair, find duplicates, write."""
    seen: set[tuple[str, str]] = set()
    floods: dict[str, int] = {}
    rows = []
    duplicates = 0
    with gzip.open(source, "rt", encoding="utf-8") as lines:
        for line in lines:
            dialogue = json.loads(line)
            before = before_normalised = None
            for position, turn in enumerate(dialogue["turns"]):
                text = clean(turn)
                normalised = None
                if text is not None:
                    normalised = normalise(text)
                    if len(normalised) >= 24:
                        flood = DIGITS.sub("", normalised)[-60:]
                        floods[flood] = floods.get(flood, 0) + 1
                        if floods[flood] > 1000:
                            text = None
                if text is not None and before is not None:
                    key = (before_normalised, normalised)
                    duplicates += key in seen
                    seen.add(key)
                    rows.append((dialogue["id"], str(position), before, text))
                before, before_normalised = text, normalised
    frame = pd.DataFrame(rows, columns=["dialogue", "position", "utterance", "response"])
    frame.to_parquet(output, compression="zstd", index=False)
    print(json.dumps({"pairs": len(frame), "duplicates": duplicates}))


if __name__ == "__main__":
    main(*sys.argv[1:])
