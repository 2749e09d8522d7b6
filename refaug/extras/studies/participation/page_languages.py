"""The languages that the participants' page speaks: a file of words for each but English, named by its tag.

A further one needs a file in pages/static/take/languages with the names of the others, and a line in its test.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import orjson

from refaug.service.web.pages.static_files import static_files

# English words stand in the page; these are what the server says itself
_ENGLISH: Final[Mapping[str, str]] = {
    "attention": "This line shows that you read the questions: please choose “{answer}”.",
}


def words_file(language: str) -> str:
    """Return the tag of the file with the words of a language, or nothing where the page speaks English."""
    tag = language.partition("-")[0]
    return tag if _address(tag) in static_files().files else ""


def server_words(language: str) -> Mapping[str, str]:
    """Return what the server says to participants of a language."""
    tag = words_file(language)
    return {**_ENGLISH, **orjson.loads(static_files().files[_address(tag)].content)} if tag else _ENGLISH


def _address(tag: str) -> str:
    return f"take/languages/{tag}.json"
