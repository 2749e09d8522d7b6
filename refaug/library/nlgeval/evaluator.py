"""The object and the functions of nlg-eval."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from os import PathLike, fspath
from pathlib import Path
from typing import Final

from refaug.core.errors import BadInput, NoSource, NotFound, Usage
from refaug.core.version import VERSION
from refaug.library.nlgeval import named_scores as names
from refaug.library.nlgeval.embedding_scores import EmbeddingScorer
from refaug.library.nlgeval.meteor import MeteorScorer
from refaug.library.nlgeval.named_scores import NamedScores
from refaug.library.nlgeval.overlap import OverlapItem, bleu, cider, rouge_l


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

    valid_metrics = frozenset(names.ALL)
    glove_metrics = frozenset(names.EMBEDDINGS)

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
        self.omitted = {names.SPICE: _NO_SPICE, names.SKIP_THOUGHTS: _NO_SKIP_THOUGHTS}
        self.omitted |= dict.fromkeys(_names_to_omit(metrics_to_omit, no_overlap, bool(no_glove)), _ASKED_TO_OMIT)
        self._embeddings = self._load_vectors(vectors)
        self._meteor = self._load_meteor(wordnet)
        self._bleu_order = sum(name not in self.omitted for name in names.BLEU)

    def _load_vectors(self, vectors: PathOf | None) -> EmbeddingScorer | None:
        if all(name in self.omitted for name in names.EMBEDDINGS):
            return None
        if vectors is None:
            reason = "no word vectors: NLGEval(vectors='glove.6B.300d.txt') computes it"
            self.omitted |= {name: reason for name in names.EMBEDDINGS if name not in self.omitted}
            return None
        return EmbeddingScorer(Path(fspath(vectors)))

    def _load_meteor(self, wordnet: PathOf | None) -> MeteorScorer | None:
        if names.METEOR in self.omitted:
            return None
        folder = _WORDNET if wordnet is None else fspath(wordnet)
        try:
            return MeteorScorer(None if folder == "none" else Path(folder))
        except NotFound as error:
            if wordnet is not None:
                raise
            self.omitted[names.METEOR] = f"{error.message}: apt-get install wordnet-base, wordnet=FOLDER or 'none'"
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
            scores |= dict(zip(names.BLEU, bleu(items, self._bleu_order), strict=False))
        pairs = [(item.reply, item.references) for item in items]
        if self._meteor is not None:
            scores[names.METEOR] = self._meteor.score(pairs)
        for name, function in ((names.ROUGE, rouge_l), (names.CIDER, cider)):
            if name not in self.omitted:
                scores[name] = function(items)
        if self._embeddings is not None:
            chosen = [name for name in names.EMBEDDINGS if name not in self.omitted]
            similarities = self._embeddings.mean_scores(pairs, chosen)
            if names.AVERAGE in similarities:
                scores |= dict.fromkeys((names.AVERAGE, names.OLD_AVERAGE), similarities[names.AVERAGE])
            scores |= similarities
        return NamedScores(scores, self.omitted, self.signature)


def _names_to_omit(metrics_to_omit: Collection[str] | None, no_overlap: bool, no_glove: bool) -> set[str]:
    """Return the metrics to leave out; one order of BLEU takes the higher ones with it, as in nlg-eval."""
    if isinstance(metrics_to_omit, str):
        raise Usage(f"metrics_to_omit={metrics_to_omit!r} is a string", remedy=f"a list: [{metrics_to_omit!r}]")
    omitted = {names.AVERAGE if name == names.OLD_AVERAGE else name for name in metrics_to_omit or ()}
    if unknown := sorted(omitted - set(names.ALL)):
        raise Usage(f"no metric to leave out: {', '.join(unknown)}", remedy=f"some of {', '.join(names.ALL)}")
    first = next((at for at, name in enumerate(names.BLEU) if name in omitted), len(names.BLEU))
    omitted |= set(names.BLEU[first:])
    return omitted | set(names.OVERLAP if no_overlap else ()) | set(names.EMBEDDINGS if no_glove else ())


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
