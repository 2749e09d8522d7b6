"""From a Japanese log to weighted references: what comes of it, and how long each stage takes.

    python bench/bench_japanese.py --data FOLDER --home FOLDER
    python bench/bench_japanese.py --data FOLDER --home FOLDER --fraction 0.2

The result goes to bench/results/japanese.json; it has figures and no text. The log is `logs/ja_million.jsonl.gz` of
`--data`; without it nothing is measured. Words are MeCab's, pieces of the rater SentencePiece's, vectors, index and
rater those that the proof makes, of the Japanese log alone. One dialogue in a hundred is in none of them: of 200 of
these dialogues, a pair each is looked up in the index and rated. With a `--fraction` that many of the others are taken,
and the same held-out ones.
"""

from __future__ import annotations

import argparse
import gzip
import random
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from time import perf_counter
from typing import Any, Final

import numpy as np
import orjson
from common import ROOT, write_result

from core.cleaning import CleaningSettings
from core.files import read_json
from core.ingest import ingest
from core.ingest_order import IngestOrder
from core.items import item_of
from core.log_store import StoredLog
from core.pairs import SharedSettings
from core.progress import Silent
from core.records import Item, Origin
from core.text import get_tokenizer
from core.word_vectors import MANIFEST as VECTORS_MANIFEST
from core.word_vectors import open_word_vectors
from indexer.manifest import IndexManifest
from rater.checkpoint import REPORT, read_manifest
from rater.coverage import Coverage
from rater.making import PRESETS
from rater.rate import Rater
from service.artefacts import stored
from service.augment import Augmented, AugmentSettings, augment
from service.proof.chain import FILES, Chain, IndexOf, Part, ProofSettings
from service.retrieval import open_index
from service.settings import Settings

PACKAGES = ("refaug", "numpy", "faiss-cpu", "torch", "sentencepiece", "fugashi", "ipadic")
LOG: Final = "japanese"
LANGUAGE: Final = "ja"
TOKENIZER: Final = "mecab"
HELD_OUT: Final = 0.01  # of the dialogues
PAIRS: Final = 200  # that are looked up, each of another dialogue
LEAST_CHARACTERS: Final = SharedSettings.for_language(LANGUAGE).min_chars


class JapaneseChain(Chain):
    """The proof's chain, but its logs are said to be Japanese: tokenizers and shared utterances follow from that."""

    def log(self, part: Part) -> str:
        """The name of its ingested log."""
        if part.name not in self._ingested:
            with self._timed("ingest"):
                source = self._selected(self._file(part.log), part)
                order = IngestOrder(
                    sources=(str(source),),
                    log=part.name,
                    cleaning=CleaningSettings(language=LANGUAGE),
                    memory=self.settings.memory,
                    workers=0,
                )
                ingest(order, self.home.logs, self.progress)
            self._ingested.add(part.name)
        return part.name


@dataclass(frozen=True, kw_only=True)
class Made:
    """What was built, by name@version."""

    log: str
    vectors: str
    index: str
    rater: Rater


def build(chain: JapaneseChain, preset: str) -> Made:
    """Log, vectors, index, rater, each of all dialogues that are not held out."""
    parts = (chain.part(LOG, 1 - HELD_OUT),)
    log = chain.log(parts[0])
    vectors = chain.vectors(parts, name=LOG)
    index = chain.index(IndexOf(name=LOG, parts=parts), vectors)
    return Made(log=log, vectors=vectors, index=index, rater=chain.rater(parts, name=LOG, preset=preset, more_texts=()))


# ── what was built ────────────────────────────────────────────────────────────────────────────────────────────────


def told_of_log(chain: Chain, made: Made) -> dict[str, Any]:
    """What stands in it, and what the rules took out."""
    manifest = StoredLog.open(chain.home.logs, made.log).manifest
    return {
        "language": manifest.ingests[0].language,
        "pairs": sum(part.pairs for part in manifest.parts),
        "counts": dict(manifest.ingests[0].counts),
    }


def told_of_vectors(chain: Chain, made: Made) -> dict[str, Any]:
    """Words, and how much of the log has a vector."""
    manifest = read_json(chain.vectors_folder(made.vectors) / VECTORS_MANIFEST)
    covered = manifest["details"]["coverage"]
    return {
        "tokenizer": manifest["details"]["tokenizer"],
        "tokenizer_version": manifest["details"]["tokenizer_version"],
        "words": manifest["words"],
        "dimensions": manifest["dimensions"],
        "tokens": covered["tokens"],
        "known_tokens": _share(covered["known_tokens"], covered["tokens"]),
        "texts_without_vector": _share(covered["without_vector"], covered["texts"]),
    }


def told_of_index(chain: Chain, made: Made) -> dict[str, Any]:
    """Its kind, and how much of exact search it finds."""
    manifest = _index_manifest(chain, made)
    return {
        "tokenizer": manifest.tokenizer,
        "factory": manifest.segments[0].factory,
        "utterances": manifest.utterances,
        "pairs": manifest.pairs,
        "recall": None if manifest.check is None else asdict(manifest.check),
    }


def told_of_rater(chain: Chain, made: Made) -> dict[str, Any]:
    """What it was taught, and how it does on pairs that it was not taught."""
    folder = _folder(chain, "rater", made.rater.spec)
    report, network = read_json(folder / REPORT), read_manifest(folder)
    return {
        "languages": list(network.languages),
        "vocabulary": network.config.vocabulary,
        "utterances": {name: one["utterances"] for name, one in report["examples"].items()},
        "positive": {name: one["positive"] for name, one in report["examples"].items()},
        "epochs": len(report["epochs"]),
        "auc": report["auc_good_vs_wrong"],
        "auc_hard": None if report["hard"] is None else report["hard"]["auc_good_vs_hard"],
        "auc_short": report["short"]["auc_good_vs_wrong"],
        "calibration_error": {name: one["error"] for name, one in report["calibration"].items()},
    }


def seconds_of(chain: Chain, made: Made) -> dict[str, Any]:
    """As the manifests have them: the stages of each artefact."""
    vectors = read_json(chain.vectors_folder(made.vectors) / VECTORS_MANIFEST)["details"]["seconds"]
    folder = _folder(chain, "rater", made.rater.spec)
    epochs = read_json(folder / REPORT)["epochs"]
    return {
        "whole": chain.seconds,
        "vectors": dict(vectors),
        "index": dict(_index_manifest(chain, made).seconds),
        "rater": {**read_manifest(folder).details["seconds"], "epochs": sum(one["seconds"] for one in epochs)},
    }


def _index_manifest(chain: Chain, made: Made) -> IndexManifest:
    return IndexManifest.read(_folder(chain, "index", made.index))


def _folder(chain: Chain, kind: str, spec: str) -> Path:
    name, _, version = spec.partition("#")[0].partition("@")
    return stored(chain.home)[kind].folder(name, version)


# ── held-out pairs ────────────────────────────────────────────────────────────────────────────────────────────────


def held_out(path: Path, seed: int) -> list[Item]:
    """A pair of adjacent turns of each of some dialogues that no log has, drawn."""
    rng = random.Random(seed)
    dialogues = [turns for turns in _held_dialogues(path) if len(turns) > 1]
    items = []
    for number, turns in enumerate(rng.sample(dialogues, min(PAIRS, len(dialogues)))):
        at = rng.randrange(1, len(turns))
        values = {"id": f"held-{number}", "utterance": turns[at - 1], "references": [turns[at]]}
        items.append(item_of(values, fallback_id=str(number)))
    return items


def _held_dialogues(path: Path) -> Iterator[Sequence[str]]:
    """Those beyond the share that is taken, whatever the fraction of it."""
    taken = Part(log=LOG, share=1 - HELD_OUT)
    with gzip.open(path, "rb") as lines:
        for line in lines:
            dialogue = orjson.loads(line)
            if not taken.takes(str(dialogue["id"])):
                yield [turn for turn in dialogue["turns"] if turn and turn.strip()]


def told_of_held_out(chain: Chain, made: Made, items: Sequence[Item]) -> dict[str, Any]:
    """How many references each gets, what the rater makes of them, and what neither vectors nor rater know."""
    settings = AugmentSettings()
    began = perf_counter()
    with open_index(chain.home, made.index, threads=chain.settings.threads) as index:
        found = [one for one in augment(items, index, made.rater, settings) if isinstance(one, Augmented)]
    seconds = perf_counter() - began
    retrieved = [[one for one in each.item.pair.references if one.source is Origin.RETRIEVED] for each in found]
    ratings = np.array([one.rating for some in retrieved for one in some if one.rating is not None])
    parrots = [one.rating for each in found for one in each.item.pair.references if one.source is Origin.PARROT]
    nearest = np.array([some[0].similarity for some in retrieved if some])
    excluded = sum((Counter(each.excluded) for each in found), Counter[str]())
    return {
        "pairs": len(items),
        "k": settings.search.k,
        "seconds": round(seconds, 3),
        "references": len(ratings),
        "references_a_pair": round(len(ratings) / len(items), 4),
        "without_any": sum(not some for some in retrieved),
        "excluded": dict(sorted(excluded.items())),
        "first_similarity": {"median": float(np.median(nearest)), "equal_utterance": int((nearest > 1 - 1e-6).sum())},
        "rated_above_0": float((ratings > 0).mean()),
        "rating_quartiles": np.quantile(ratings, (0.25, 0.5, 0.75)).tolist(),
        "parrots_rated_above_0": float(np.mean([one is not None and one > 0 for one in parrots])),
        **_unknown(chain, made, items),
    }


def _unknown(chain: Chain, made: Made, items: Sequence[Item]) -> dict[str, Any]:
    """Of utterances and golds: characters that the rater has no piece for, words that have no vector."""
    texts = [text for one in items for text in (one.pair.utterance or "", *(ref.text for ref in one.pair.references))]
    pieces = Coverage.of(made.rater.tokenizer, texts)
    vectors = open_word_vectors(chain.vectors_folder(made.vectors))
    words = [word for some in get_tokenizer(TOKENIZER).tokenize_batch(texts) for word in some]
    return {
        "characters": pieces.characters,
        "unknown_characters": _share(pieces.unknown, pieces.characters),
        "characters_a_piece": pieces.characters / pieces.pieces,
        "words": len(words),
        "words_with_vector": _share(int((vectors.rows_of(words) >= 0).sum()), len(words)),
        "characters_a_word": sum(map(len, words)) / len(words),
        "shorter_than_shared_utterances": _share(
            sum(len(one.pair.utterance or "") < LEAST_CHARACTERS for one in items), len(items)
        ),
    }


def _share(part: int, whole: int) -> float:
    return part / whole if whole else 0.0


# ── all of it ─────────────────────────────────────────────────────────────────────────────────────────────────────


def main() -> None:
    given = _arguments()
    path = given.data / "logs" / f"{FILES[LOG]}.jsonl.gz"
    if not path.exists():
        print(f"skipped: {path} is not there; give the folder with --data")
        return
    settings = ProofSettings(data=given.data, fraction=given.fraction)
    chain = JapaneseChain(Settings(home=given.home), settings, Silent())
    made = build(chain, given.preset)
    result = {
        "fraction": given.fraction,
        "preset": given.preset,
        "threads": settings.threads,
        "least_characters_of_shared_utterances": LEAST_CHARACTERS,
        "log": told_of_log(chain, made),
        "vectors": told_of_vectors(chain, made),
        "index": told_of_index(chain, made),
        "rater": told_of_rater(chain, made),
        "held_out": told_of_held_out(chain, made, held_out(path, settings.seed)),
        "seconds": seconds_of(chain, made),
    }
    print(write_result("japanese", _rounded(result), PACKAGES))


def _rounded(said: Any) -> Any:
    """To four digits, wherever there are more."""
    if isinstance(said, dict):
        return {name: _rounded(value) for name, value in said.items()}
    if isinstance(said, list):
        return [_rounded(value) for value in said]
    return round(said, 4) if isinstance(said, float) else said


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--data", type=Path, default=ROOT.parent / "shared" / "data")
    parser.add_argument("--home", type=Path, required=True, help="where logs, vectors, index and rater are made")
    parser.add_argument("--fraction", type=float, default=1.0, help="of the dialogues that are not held out")
    parser.add_argument("--preset", choices=tuple(PRESETS), default="base", help="of the rater")
    return parser.parse_args()


if __name__ == "__main__":
    main()
