"""The list of tokenizers, which split texts into words.

A tokenizer's `name` goes into manifests and signatures, its `version` (the libraries and dictionaries that can change
its tokens) into manifests. Libraries that only some tokenizers need are imported on demand.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from refaug.core.errors import Usage
from refaug.core.text.mecab import MecabTokenizer
from refaug.core.text.mteval import InternationalTokenizer, Mteval13aTokenizer
from refaug.core.text.sentencepiece_tokenizer import open_sentencepiece
from refaug.core.text.tokenizer_base import Tokenizer, tokenizer_of_class
from refaug.core.text.words import CharTokenizer, WordTokenizer


@dataclass(frozen=True)
class TokenizerKind:
    """One entry of the list of tokenizers, for help and for `doctor`."""

    spelling: str
    summary: str
    packages: tuple[str, ...] = ()


TOKENIZERS: tuple[TokenizerKind, ...] = (
    TokenizerKind("word", "lower-case words and punctuation; the default where words are separated by spaces"),
    TokenizerKind("char", "every character that is not white space; mixed case"),
    TokenizerKind("13a", "mteval-v13a, the default of sacrebleu's BLEU; mixed case"),
    TokenizerKind("intl", "mteval-v14 international, as in sacrebleu; mixed case", ("regex",)),
    TokenizerKind("mecab", "Japanese words, MeCab with the IPA dictionary", ("fugashi", "ipadic")),
    TokenizerKind("mecab:unidic-lite", "Japanese words, MeCab with UniDic (lite)", ("fugashi", "unidic-lite")),
    TokenizerKind("sentencepiece:<model>", "pieces of a SentencePiece model, a path to a file", ("sentencepiece",)),
)


# the class and the arguments of each tokenizer that a name alone determines
_MAKERS: Final[Mapping[str, tuple[Callable[..., Tokenizer], *tuple[str, ...]]]] = {
    "word": (WordTokenizer,),
    "char": (CharTokenizer,),
    "13a": (Mteval13aTokenizer,),
    "intl": (InternationalTokenizer,),
    "mecab": (MecabTokenizer, "mecab", "ipadic", "ipadic"),
    "mecab:unidic-lite": (MecabTokenizer, "mecab:unidic-lite", "unidic-lite", "unidic_lite"),
}


def get_tokenizer(name: str) -> Tokenizer:
    """Return the tokenizer of that name; the same name gives the same object.

    A SentencePiece model is named by its path here, and by its content in the `name` of the returned tokenizer.
    """
    kind, _, argument = name.partition(":")
    if kind == "sentencepiece" and argument:
        return open_sentencepiece(Path(argument))
    maker = _MAKERS.get("mecab" if name == "mecab:ipadic" else name)
    if maker is None:
        names = ", ".join(kind.spelling for kind in TOKENIZERS)
        raise Usage(f"no tokenizer is called {name!r}", remedy=f"one of: {names}")
    return tokenizer_of_class(*maker)


def default_tokenizer(language: str) -> str:
    """Return the tokenizer's name for a language tag: `mecab` for Japanese (ja, ja-JP), `word` for all others."""
    return "mecab" if language.replace("_", "-").split("-")[0].lower() == "ja" else "word"
