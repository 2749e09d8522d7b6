"""The object and the functions of nlg-eval, the names of its metrics, and scores by these names."""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from math import exp, log, sqrt
from os import PathLike, fspath
from pathlib import Path
from typing import Any, Final, NoReturn

import numpy as np
from numpy.typing import NDArray

from refaug.core.errors import BadInput, NoSource, NotFound, Usage
from refaug.core.vectors.word_vectors import WordVectors, open_word_vectors
from refaug.core.version import VERSION
from refaug.library.nlgeval.meteor import MeteorScorer, english_words

BLEU: Final = ("Bleu_1", "Bleu_2", "Bleu_3", "Bleu_4")
METEOR: Final = "METEOR"
ROUGE: Final = "ROUGE_L"
CIDER: Final = "CIDEr"
SPICE: Final = "SPICE"
SKIP_THOUGHTS: Final = "SkipThoughtCS"
AVERAGE: Final = "EmbeddingAverageCosineSimilarity"
OLD_AVERAGE: Final = "EmbeddingAverageCosineSimilairty"  # a slip of the pen that nlg-eval still answers to
EXTREMA: Final = "VectorExtremaCosineSimilarity"
GREEDY: Final = "GreedyMatchingScore"
OVERLAP: Final = (*BLEU, METEOR, ROUGE, CIDER, SPICE)
EMBEDDINGS: Final = (AVERAGE, EXTREMA, GREEDY)
ALL: Final = (*OVERLAP, SKIP_THOUGHTS, *EMBEDDINGS)


class NamedScores(dict[str, float]):
    """Scores by the names of nlg-eval, in its order; a name that is missing says why.

    `omitted` holds the metrics without a score, each with the reason; `signature` says what the scores depend on.
    """

    def __init__(self, scores: Mapping[str, float], omitted: Mapping[str, str], signature: str) -> None:
        super().__init__(scores)
        self.omitted = dict(omitted)
        self.signature = signature

    def __missing__(self, name: str) -> NoReturn:
        reason = self.omitted.get(name, "nlg-eval has no metric of that name")
        raise KeyError(f"{name}: {reason}")


# ── BLEU-1 to BLEU-4, ROUGE-L and CIDEr-D as nlg-eval defines them, to its constants ──────────────────────────────────
#
# They differ from the metrics of the same names elsewhere, and so from those of `refaug.metrics`:
#
#     BLEU     words between white space; no smoothing, but 1e-15 is added to matches and 1e-9 to counts
#     ROUGE-L  words between single spaces; F with β = 1.2 of the best precision and the best recall, which may
#              come from two references
#     CIDEr    CIDEr-D with σ = 6 and idf from the references of the call, so that a single reply has 0
#
# A text here is a list of words, and an item is a reply with its references.

_ORDER: Final = 4
_SMALL, _TINY = 1e-9, 1e-15  # so that nothing is divided by 0, and 0 matches stay almost 0
_BETA: Final = 1.2
_SIGMA: Final = 6.0

Ngram = tuple[str, ...]


@dataclass(frozen=True)
class OverlapItem:
    """A reply with its references."""

    reply: str
    references: Sequence[str]


# ── BLEU ──────────────────────────────────────────────────────────────────────────────────────────────────────────


def bleu(items: Sequence[OverlapItem], order: int = _ORDER) -> list[float]:
    """Return BLEU-1 to BLEU-`order` of all replies together."""
    matches, totals, reply_length, reference_length = [0] * order, [0] * order, 0, 0
    for case in items:
        reply = case.reply.split()
        references = [reference.split() for reference in case.references]
        reply_length += len(reply)
        reference_length += min((abs(len(words) - len(reply)), len(words)) for words in references)[1]
        for n in range(order):
            counts = _ngrams(reply, n + 1)
            most = Counter[Ngram]()
            for words in references:
                most |= _ngrams(words, n + 1)
            matches[n] += (counts & most).total()
            totals[n] += counts.total()
    ratio = (reply_length + _TINY) / (reference_length + _SMALL)
    penalty = exp(1 - 1 / ratio) if ratio < 1 else 1.0
    product, scores = 1.0, []
    for n in range(order):
        product *= (matches[n] + _TINY) / (totals[n] + _SMALL)
        scores.append(penalty * product ** (1 / (n + 1)))
    return scores


def _ngrams(words: Sequence[str], n: int) -> Counter[Ngram]:
    return Counter(tuple(words[at : at + n]) for at in range(len(words) - n + 1))


# ── ROUGE-L ───────────────────────────────────────────────────────────────────────────────────────────────────────


def rouge_l(items: Sequence[OverlapItem]) -> float:
    """Return the mean ROUGE-L of the replies."""
    return sum(map(_rouge_l, items)) / len(items)


def _rouge_l(case: OverlapItem) -> float:
    reply = case.reply.split(" ")
    precision = recall = 0.0
    for reference in case.references:
        words = reference.split(" ")
        common = _common_length(reply, words)
        precision, recall = max(precision, common / len(reply)), max(recall, common / len(words))
    if precision == 0 or recall == 0:
        return 0.0
    return (1 + _BETA**2) * precision * recall / (recall + _BETA**2 * precision)


def _common_length(first: Sequence[str], second: Sequence[str]) -> int:
    """Return the length of the longest common subsequence."""
    row = [0] * (len(second) + 1)
    for word in first:
        diagonal = 0
        for at, other in enumerate(second, start=1):
            diagonal, row[at] = row[at], diagonal + 1 if word == other else max(row[at], row[at - 1])
    return row[-1]


# ── CIDEr ─────────────────────────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True)
class _Weighted:
    """The tf-idf of a text's n-grams, their norms by order, and the text's length in pairs of words."""

    weights: list[dict[Ngram, float]]
    norms: list[float]
    length: int


def cider(items: Sequence[OverlapItem]) -> float:
    """Return the mean CIDEr-D of the replies, with idf from these references."""
    references = [[_all_ngrams(text) for text in case.references] for case in items]
    frequency = Counter[Ngram](chain.from_iterable(set().union(*texts) for texts in references))
    log_items = log(len(items))

    def weigh(counts: Counter[Ngram]) -> _Weighted:
        weights: list[dict[Ngram, float]] = [{} for _ in range(_ORDER)]
        for ngram, count in counts.items():
            weights[len(ngram) - 1][ngram] = count * (log_items - log(max(1, frequency[ngram])))
        norms = [sqrt(sum(weight * weight for weight in of_order.values())) for of_order in weights]
        return _Weighted(weights, norms, sum(count for ngram, count in counts.items() if len(ngram) == 2))

    total = 0.0
    for case, texts in zip(items, references, strict=True):
        reply = weigh(_all_ngrams(case.reply))
        total += sum(_cider_similarity(reply, weigh(counts)) for counts in texts) / len(texts)
    return 10 * total / len(items)


def _all_ngrams(text: str) -> Counter[Ngram]:
    words = text.split()
    return Counter(chain.from_iterable(_ngrams(words, n).elements() for n in range(1, _ORDER + 1)))


def _cider_similarity(reply: _Weighted, reference: _Weighted) -> float:
    """Return the mean over the orders of the clipped cosine, less for another length."""
    total = 0.0
    for n, weights in enumerate(reply.weights):
        norms = reply.norms[n] * reference.norms[n]
        if norms > 0:
            shared = reference.weights[n]
            total += (
                sum(min(weight, shared[ngram]) * shared[ngram] for ngram, weight in weights.items() if ngram in shared)
                / norms
            )
    return total / _ORDER * exp(-((reply.length - reference.length) ** 2) / (2 * _SIGMA**2))


# ── Embedding average, vector extrema and greedy matching as nlg-eval computes them ───────────────────────────────────
#
# Words without a vector have the mean of all vectors, so that they pull every text towards the same point; the
# metrics of `refaug.metrics` leave them out. Cosines with a zero vector are 0. An empty reply scores 0, where nlg-
# eval stops.

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class EmbeddedText:
    """The vectors of a text's words, with their sum, extreme values and unit vectors."""

    total: Floats
    extrema: Floats
    units: Floats  # (words, dimensions)


class EmbeddingScorer:
    """The three similarities over one file of word vectors."""

    def __init__(self, vectors: Path) -> None:
        self._vectors: WordVectors = open_word_vectors(vectors)
        self._unknown = np.asarray(self._vectors.matrix.mean(axis=0), np.float64)
        self._tokenize = word_tokenizer()
        self.name = self._vectors.name

    def embed(self, text: str) -> EmbeddedText | None:
        """Return a text's vectors; None for a text without a word."""
        rows = self._vectors.rows_of(self._tokenize(text))
        if not len(rows):
            return None
        words = np.where((rows >= 0)[:, None], np.asarray(self._vectors.matrix[rows], np.float64), self._unknown)
        high, low = words.max(axis=0), words.min(axis=0)
        return EmbeddedText(
            total=words.sum(axis=0),
            extrema=np.where((low != 0) & (high > np.abs(low)), high, low),  # nlg-eval takes the 0 of a lowest 0
            units=_units(words),
        )

    def mean_scores(self, items: Sequence[tuple[str, Sequence[str]]], names: Collection[str]) -> dict[str, float]:
        """Return the named similarities of replies to their references, each the mean over the replies."""
        embed = functools.lru_cache(maxsize=2**14)(self.embed)
        pairs = [
            (embed(reply), [embedded for text in references if (embedded := embed(text)) is not None])
            for reply, references in items
        ]
        return {name: _mean_best(pairs, similarity) for name, similarity in _SIMILARITIES.items() if name in names}


def _mean_best(
    pairs: Sequence[tuple[EmbeddedText | None, Sequence[EmbeddedText]]],
    similarity: Callable[[EmbeddedText, EmbeddedText], float],
) -> float:
    """Return the mean over the replies of the similarity to the most similar reference."""
    best = [
        max((similarity(reply, reference) for reference in references), default=0.0) if reply is not None else 0.0
        for reply, references in pairs
    ]
    return sum(best) / len(best)


def _average(reply: EmbeddedText, reference: EmbeddedText) -> float:
    return _cosine(reply.total, reference.total)


def _extrema(reply: EmbeddedText, reference: EmbeddedText) -> float:
    return _cosine(reply.extrema, reference.extrema)


def _greedy(reply: EmbeddedText, reference: EmbeddedText) -> float:
    cosines = reference.units @ reply.units.T
    return float(cosines.max(axis=0).mean() + cosines.max(axis=1).mean()) / 2


_SIMILARITIES: Final = {AVERAGE: _average, EXTREMA: _extrema, GREEDY: _greedy}


def _cosine(first: Floats, second: Floats) -> float:
    norms = float(np.linalg.norm(first) * np.linalg.norm(second))
    return float(first @ second) / norms if norms > 0 else 0.0


def _units(vectors: Floats) -> Floats:
    norms = np.linalg.norm(vectors, axis=1, keepdims=True)
    return np.asarray(vectors / np.where(norms > 0, norms, 1.0))


@functools.cache
def word_tokenizer() -> Callable[[str], list[str]]:
    """Return nltk's tokenizer of words, after its splitter of sentences without the trained model, a download."""
    from nltk.tokenize import NLTKWordTokenizer  # noqa: PLC0415  half a second
    from nltk.tokenize.punkt import PunktParameters, PunktSentenceTokenizer  # noqa: PLC0415

    parameters: Any = PunktParameters()
    parameters.abbrev_types = set(english_words("abbreviations"))  # nlg-eval has a trained list of them
    sentences, words = PunktSentenceTokenizer(parameters), NLTKWordTokenizer()
    return lambda text: [word for sentence in sentences.tokenize(text) for word in words.tokenize(sentence)]


def require_text(name: str, text: object) -> str:
    """Return a text, or refuse what is none."""
    if not isinstance(text, str):
        raise BadInput(f"{name} is {_kind(text)}, not a text", remedy="a string; '' for an empty reply")
    return text


def require_texts(name: str, texts: object) -> list[str]:
    """Return a list of texts, or refuse what is none; a string is refused, as its letters are no references."""
    if isinstance(texts, str):
        raise BadInput(f"{name} is a string where a list of strings belongs", remedy=f"[{texts[:30]!r}]")
    if not isinstance(texts, Sequence) or not texts:
        raise BadInput(f"{name} is {_kind(texts)}, not a list of texts", remedy="at least one reference")
    return [require_text(f"{name}[{place}]", text) for place, text in enumerate(texts)]


def aligned_items(references: object, replies: object) -> list[OverlapItem]:
    """Return an item for each reply; `references` has a list for each first, second, … reference."""
    texts = require_texts("hyp_list", replies)
    if isinstance(references, str) or not isinstance(references, Sequence) or not references:
        raise BadInput(f"ref_list is {_kind(references)}, not a list of lists", remedy="a list for each reference")
    for place, column in enumerate(references):
        if isinstance(column, str) or not isinstance(column, Sequence):
            raise BadInput(f"ref_list[{place}] is {_kind(column)}, not a list", remedy="ref_list=[[first references]]")
        if len(column) != len(texts):
            transposed = (
                " (is it a list for each reply? then list(zip(*ref_list)))" if len(references) == len(texts) else ""
            )
            raise BadInput(
                f"ref_list[{place}] has {len(column):,} references and hyp_list {len(texts):,} replies",
                remedy=f"one list for each first, second, … reference, None where there is none{transposed}",
            )
    return [_aligned_item(place, text, [column[place] for column in references]) for place, text in enumerate(texts)]


def _aligned_item(place: int, reply: str, references: Sequence[object]) -> OverlapItem:
    texts = [
        require_text(f"ref_list[{column}][{place}]", text).strip()
        for column, text in enumerate(references)
        if text is not None
    ]
    if not texts:
        raise BadInput(
            f"reply {place} of hyp_list has no reference", remedy="at least one list must have a text for it"
        )
    return OverlapItem(reply.strip(), texts)


def read_lines(path: Path) -> list[str]:
    """Return the lines of a file of UTF-8."""
    try:
        content = path.read_bytes()
    except OSError as error:
        raise NoSource(f"{str(path)!r} cannot be read: {error.strerror}") from error
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise BadInput(f"{path}, line {line}: not UTF-8: {error.reason}") from error
    return text.replace("\r\n", "\n").removesuffix("\n").split("\n") if text else []


def _kind(thing: object) -> str:
    return "None" if thing is None else f"{type(thing).__name__} {str(thing)[:30]!r}"


_DELIMITER: Final = "||<|>||"  # between references in one string, as the function of nlg-eval takes them
_WORDNET: Final = "/usr/share/wordnet"
_NO_SPICE: Final = "SPICE needs Java, Stanford CoreNLP and a parser of scenes: it is about captions of images"
_NO_SKIP_THOUGHTS: Final = "skip-thoughts need a model of 5 GB for Theano, which is no longer maintained"
_ASKED_TO_OMIT: Final = "left out by metrics_to_omit or a no_ argument"

PathOf = str | PathLike[str]


class NLGEval:
    """The metrics of nlg-eval, loaded once for many calls.

    `vectors` is a file or folder of word vectors, and `wordnet` a folder of WordNet for METEOR, or "none" for METEOR
    without synonyms. The other arguments are those of nlg-eval. Skip-thoughts and SPICE are never computed, and the
    metrics of word vectors only with `vectors`: `omitted` names each metric left out, with the reason.
    """

    valid_metrics = frozenset(ALL)
    glove_metrics = frozenset(EMBEDDINGS)

    def __init__(
        self,
        no_overlap: bool = False,
        no_skipthoughts: bool | None = None,
        no_glove: bool | None = None,
        metrics_to_omit: Collection[str] | None = None,
        *,
        vectors: PathOf | None = None,
        wordnet: PathOf | None = None,
    ) -> None:
        if no_skipthoughts is False:
            raise Usage(f"no_skipthoughts=False: {_NO_SKIP_THOUGHTS}", remedy="leave it out, or no_skipthoughts=True")
        if no_glove is False and vectors is None:
            raise Usage(
                "no_glove=False without word vectors: nothing is downloaded",
                remedy="vectors='glove.6B.300d.txt', or no_glove=True",
            )
        self.omitted = {SPICE: _NO_SPICE, SKIP_THOUGHTS: _NO_SKIP_THOUGHTS}
        self.omitted |= dict.fromkeys(_names_to_omit(metrics_to_omit, no_overlap, bool(no_glove)), _ASKED_TO_OMIT)
        self._embeddings = self._load_vectors(vectors)
        self._meteor = self._load_meteor(wordnet)
        self._bleu_order = sum(name not in self.omitted for name in BLEU)

    def _load_vectors(self, vectors: PathOf | None) -> EmbeddingScorer | None:
        if all(name in self.omitted for name in EMBEDDINGS):
            return None
        if vectors is None:
            reason = "no word vectors: NLGEval(vectors='glove.6B.300d.txt') computes it"
            self.omitted |= {name: reason for name in EMBEDDINGS if name not in self.omitted}
            return None
        return EmbeddingScorer(Path(fspath(vectors)))

    def _load_meteor(self, wordnet: PathOf | None) -> MeteorScorer | None:
        if METEOR in self.omitted:
            return None
        folder = _WORDNET if wordnet is None else fspath(wordnet)
        try:
            return MeteorScorer(None if folder == "none" else Path(folder))
        except NotFound as error:
            if wordnet is not None:
                raise
            self.omitted[METEOR] = f"{error.message}: apt-get install wordnet-base, wordnet=FOLDER or 'none'"
            return None

    @property
    def signature(self) -> str:
        """What the scores depend on: word vectors and WordNet, by hash, and the version of refaug."""
        parts = ["nlg-eval"]
        if self._meteor is not None:
            parts.append(f"wordnet:{self._meteor.name}")
        if self._embeddings is not None:
            parts.append(f"vectors:{self._embeddings.name}")
        return "|".join([*parts, f"refaug:{VERSION}"])

    def compute_individual_metrics(self, ref: Sequence[str], hyp: str) -> NamedScores:
        """Return the scores of one reply; `ref` is the list of its references."""
        reply, references = require_text("hyp", hyp), require_texts("ref", ref)
        return self._score([OverlapItem(reply.strip(), [text.strip() for text in references])])

    def compute_metrics(self, ref_list: Sequence[Sequence[str | None]], hyp_list: Sequence[str]) -> NamedScores:
        """Return the scores of all replies together.

        `ref_list` is one list for each first, second, … reference, as long as `hyp_list`; None where a reply has
        fewer references.
        """
        return self._score(aligned_items(ref_list, hyp_list))

    def _score(self, items: Sequence[OverlapItem]) -> NamedScores:
        scores: dict[str, float] = {}
        if self._bleu_order:
            scores |= dict(zip(BLEU, bleu(items, self._bleu_order), strict=False))
        pairs = [(item.reply, item.references) for item in items]
        if self._meteor is not None:
            scores[METEOR] = self._meteor.score(pairs)
        for name, function in ((ROUGE, rouge_l), (CIDER, cider)):
            if name not in self.omitted:
                scores[name] = function(items)
        if self._embeddings is not None:
            chosen = [name for name in EMBEDDINGS if name not in self.omitted]
            similarities = self._embeddings.mean_scores(pairs, chosen)
            if AVERAGE in similarities:
                scores |= dict.fromkeys((AVERAGE, OLD_AVERAGE), similarities[AVERAGE])
            scores |= similarities
        return NamedScores(scores, self.omitted, self.signature)


def _names_to_omit(metrics_to_omit: Collection[str] | None, no_overlap: bool, no_glove: bool) -> set[str]:
    """Return the metrics to leave out; one order of BLEU takes the higher ones with it, as in nlg-eval."""
    if isinstance(metrics_to_omit, str):
        raise Usage(f"metrics_to_omit={metrics_to_omit!r} is a string", remedy=f"a list: [{metrics_to_omit!r}]")
    omitted = {AVERAGE if name == OLD_AVERAGE else name for name in metrics_to_omit or ()}
    if unknown := sorted(omitted - set(ALL)):
        raise Usage(f"no metric to leave out: {', '.join(unknown)}", remedy=f"some of {', '.join(ALL)}")
    first = next((at for at, name in enumerate(BLEU) if name in omitted), len(BLEU))
    omitted |= set(BLEU[first:])
    return omitted | set(OVERLAP if no_overlap else ()) | set(EMBEDDINGS if no_glove else ())


def compute_metrics(
    hypothesis: PathOf,
    references: Sequence[PathOf],
    no_overlap: bool = False,
    no_skipthoughts: bool | None = None,
    no_glove: bool | None = None,
    *,
    vectors: PathOf | None = None,
    wordnet: PathOf | None = None,
) -> NamedScores:
    """Return the scores of a file of replies, one a line, and files of references; nothing is printed."""
    if isinstance(references, str | PathLike):
        raise Usage(f"references={fspath(references)!r} is one file", remedy="a list of files, also for one of them")
    evaluator = NLGEval(no_overlap, no_skipthoughts, no_glove, vectors=vectors, wordnet=wordnet)
    return evaluator.compute_metrics([read_lines(Path(path)) for path in references], read_lines(Path(hypothesis)))


def compute_individual_metrics(
    ref: Sequence[str] | str,
    hyp: str,
    no_overlap: bool = False,
    no_skipthoughts: bool | None = None,
    no_glove: bool | None = None,
    *,
    vectors: PathOf | None = None,
    wordnet: PathOf | None = None,
) -> NamedScores:
    """Return the scores of one reply; references are a list, or one string with ||<|>|| between them."""
    evaluator = NLGEval(no_overlap, no_skipthoughts, no_glove, vectors=vectors, wordnet=wordnet)
    return evaluator.compute_individual_metrics(ref.split(_DELIMITER) if isinstance(ref, str) else ref, hyp)
