"""From a Japanese log to weighted references: the results, and how long each stage takes.

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
from common import add_data_option, require_data, write_result

from refaug.core.artefacts.kinds import artefact_stores
from refaug.core.files import read_json
from refaug.core.home import Settings
from refaug.core.progress import Silent
from refaug.core.records import Item, Origin
from refaug.core.text.tokenizers import get_tokenizer
from refaug.core.vectors.word_vectors import MANIFEST as VECTORS_MANIFEST
from refaug.core.vectors.word_vectors import open_word_vectors
from refaug.extras.reproduction.material.chain import Chain, IndexRecipe
from refaug.extras.reproduction.material.proof_logs import FILES, LogSelection, ProofLogs, ProofSettings
from refaug.indexer.manifest import IndexManifest
from refaug.logs.ingest.cleaning import CleaningSettings
from refaug.logs.ingest.order import IngestOrder
from refaug.logs.pairs import SharedSettings
from refaug.logs.store import StoredLog
from refaug.rater.language_coverage import Coverage
from refaug.rater.network_folder import REPORT
from refaug.rater.nn.build import PRESETS
from refaug.rater.nn.checkpoint import read_manifest
from refaug.rater.rating import Rater
from refaug.scoring.augmentation import augment
from refaug.scoring.home.indexes import open_index
from refaug.scoring.items import item_of
from refaug.scoring.settings import AugmentSettings

PACKAGES = ("refaug", "numpy", "faiss-cpu", "torch", "sentencepiece", "fugashi", "ipadic")
LOG: Final = "japanese"
LANGUAGE: Final = "ja"
TOKENIZER: Final = "mecab"
HELD_OUT: Final = 0.01  # of the dialogues
PAIRS: Final = 200  # that are looked up, each of another dialogue
LEAST_CHARACTERS: Final = SharedSettings.for_language(LANGUAGE).min_chars


class JapaneseLogs(ProofLogs):
    """Logs that are cleaned as Japanese."""

    def order(self, name: str, source: Path) -> IngestOrder:
        """Return the order that makes the log of a file."""
        cleaning = CleaningSettings(language=LANGUAGE)
        return IngestOrder(sources=(str(source),), log=name, cleaning=cleaning, memory=self.settings.memory, workers=0)


class JapaneseChain(Chain):
    """The proof's chain with Japanese logs, from which tokenizers and shared utterances follow."""

    logs_class = JapaneseLogs


@dataclass(frozen=True, kw_only=True)
class JapaneseArtefacts:
    """What was built, by name@version."""

    log: str
    vectors: str
    index: str
    rater: Rater


def build(chain: JapaneseChain, preset: str) -> JapaneseArtefacts:
    """Build log, vectors, index and rater, each of all dialogues that are not held out."""
    parts = (chain.select(LOG, 1 - HELD_OUT),)
    log = chain.log(parts[0])
    vectors = chain.vectors(parts, name=LOG)
    index = chain.index(IndexRecipe(name=LOG, selections=parts), vectors)
    return JapaneseArtefacts(log=log, vectors=vectors, index=index, rater=chain.rater(parts, name=LOG, preset=preset))


# ── what was built ────────────────────────────────────────────────────────────────────────────────────────────────


def log_figures(chain: Chain, artefacts: JapaneseArtefacts) -> dict[str, Any]:
    """Return the size of the log, and how much the rules left out."""
    manifest = StoredLog.open(chain.home.logs, artefacts.log).manifest
    return {
        "language": manifest.ingests[0].language,
        "pairs": sum(part.pairs for part in manifest.parts),
        "counts": dict(manifest.ingests[0].counts),
    }


def vector_figures(chain: Chain, artefacts: JapaneseArtefacts) -> dict[str, Any]:
    """Return the number of words, and how much of the log has a vector."""
    manifest = read_json(chain.vectors_folder(artefacts.vectors) / VECTORS_MANIFEST)
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


def index_figures(chain: Chain, artefacts: JapaneseArtefacts) -> dict[str, Any]:
    """Return the kind of the index, and its recall beside exact search."""
    manifest = _index_manifest(chain, artefacts)
    return {
        "tokenizer": manifest.tokenizer,
        "factory": manifest.segments[0].factory,
        "utterances": manifest.utterances,
        "pairs": manifest.pairs,
        "recall": None if manifest.check is None else asdict(manifest.check),
    }


def rater_figures(chain: Chain, artefacts: JapaneseArtefacts) -> dict[str, Any]:
    """Return what the rater was trained on, and how it does on held-out pairs."""
    folder = _folder(chain, "rater", artefacts.rater.spec)
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


def stage_seconds(chain: Chain, artefacts: JapaneseArtefacts) -> dict[str, Any]:
    """Return the seconds of the stages of each artefact, from the manifests."""
    vectors = read_json(chain.vectors_folder(artefacts.vectors) / VECTORS_MANIFEST)["details"]["seconds"]
    folder = _folder(chain, "rater", artefacts.rater.spec)
    epochs = read_json(folder / REPORT)["epochs"]
    return {
        "whole": chain.seconds,
        "vectors": dict(vectors),
        "index": dict(_index_manifest(chain, artefacts).seconds),
        "rater": {**read_manifest(folder).details["seconds"], "epochs": sum(one["seconds"] for one in epochs)},
    }


def _index_manifest(chain: Chain, artefacts: JapaneseArtefacts) -> IndexManifest:
    return IndexManifest.read(_folder(chain, "index", artefacts.index))


def _folder(chain: Chain, kind: str, spec: str) -> Path:
    name, _, version = spec.partition("#")[0].partition("@")
    return artefact_stores(chain.home)[kind].folder(name, version)


# ── held-out pairs ────────────────────────────────────────────────────────────────────────────────────────────────


def held_out_items(path: Path, seed: int) -> list[Item]:
    """Return a pair of adjacent turns of each of some dialogues that no log has, drawn."""
    rng = random.Random(seed)
    dialogues = [turns for turns in _held_dialogues(path) if len(turns) > 1]
    items = []
    for number, turns in enumerate(rng.sample(dialogues, min(PAIRS, len(dialogues)))):
        at = rng.randrange(1, len(turns))
        values = {"id": f"held-{number}", "utterance": turns[at - 1], "references": [turns[at]]}
        items.append(item_of(values, fallback_id=str(number)))
    return items


def _held_dialogues(path: Path) -> Iterator[Sequence[str]]:
    """Yield the dialogues beyond the share that is used, whatever the fraction of it."""
    part = LogSelection(log=LOG, share=1 - HELD_OUT)
    with gzip.open(path, "rb") as lines:
        for line in lines:
            dialogue = orjson.loads(line)
            if not part.contains(str(dialogue["id"])):
                yield [turn for turn in dialogue["turns"] if turn and turn.strip()]


def held_out_figures(chain: Chain, artefacts: JapaneseArtefacts, items: Sequence[Item]) -> dict[str, Any]:
    """Return how many references each gets, how the rater rates them, and what vectors and rater do not know."""
    settings = AugmentSettings(parrot="rated")  # how it is rated is one of the figures
    began = perf_counter()
    with open_index(chain.home, artefacts.index, threads=chain.settings.threads) as index:
        augmented = [one for one in augment(items, index, artefacts.rater, settings) if isinstance(one, Item)]
    seconds = perf_counter() - began
    retrieved = [[one for one in each.references if one.source is Origin.RETRIEVED] for each in augmented]
    ratings = np.array([one.rating for some in retrieved for one in some if one.rating is not None])
    parrots = [one.rating for each in augmented for one in each.references if one.source is Origin.PARROT]
    nearest = np.array([some[0].similarity for some in retrieved if some])
    excluded = sum((Counter(each.search_notes.get("excluded", {})) for each in augmented), Counter[str]())
    return {
        "pairs": len(items),
        "k": settings.k,
        "seconds": round(seconds, 3),
        "references": len(ratings),
        "references_a_pair": round(len(ratings) / len(items), 4),
        "without_any": sum(not some for some in retrieved),
        "excluded": dict(sorted(excluded.items())),
        "first_similarity": {"median": float(np.median(nearest)), "equal_utterance": int((nearest > 1 - 1e-6).sum())},
        "rated_above_0": float((ratings > 0).mean()),
        "rating_quartiles": np.quantile(ratings, (0.25, 0.5, 0.75)).tolist(),
        "parrots_rated_above_0": float(np.mean([one is not None and one > 0 for one in parrots])),
        **_unknown(chain, artefacts, items),
    }


def _unknown(chain: Chain, artefacts: JapaneseArtefacts, items: Sequence[Item]) -> dict[str, Any]:
    """Return the characters of utterances and golds without a piece of the rater, and their words without a vector."""
    texts = [text for one in items for text in (one.utterance or "", *(ref.text for ref in one.references))]
    pieces = Coverage.of(artefacts.rater.tokenizer, texts)
    vectors = open_word_vectors(chain.vectors_folder(artefacts.vectors))
    words = [word for some in get_tokenizer(TOKENIZER).tokenize_batch(texts) for word in some]
    return {
        "characters": pieces.characters,
        "unknown_characters": _share(pieces.unknown, pieces.characters),
        "characters_a_piece": pieces.characters / pieces.pieces,
        "words": len(words),
        "words_with_vector": _share(int((vectors.rows_of(words) >= 0).sum()), len(words)),
        "characters_a_word": sum(map(len, words)) / len(words),
        "shorter_than_shared_utterances": _share(
            sum(len(one.utterance or "") < LEAST_CHARACTERS for one in items), len(items)
        ),
    }


def _share(part: int, whole: int) -> float:
    return part / whole if whole else 0.0


# ── all of it ─────────────────────────────────────────────────────────────────────────────────────────────────────


def main() -> None:
    arguments = _arguments()
    path = arguments.data / "logs" / f"{FILES[LOG]}.jsonl.gz"
    if not path.exists():
        print(f"skipped: {path} is not there; give the folder with --data")
        return
    settings = ProofSettings(data=arguments.data, fraction=arguments.fraction)
    chain = JapaneseChain(Settings(home=arguments.home), settings, Silent())
    artefacts = build(chain, arguments.preset)
    figures = {
        "fraction": arguments.fraction,
        "preset": arguments.preset,
        "threads": settings.threads,
        "least_characters_of_shared_utterances": LEAST_CHARACTERS,
        "log": log_figures(chain, artefacts),
        "vectors": vector_figures(chain, artefacts),
        "index": index_figures(chain, artefacts),
        "rater": rater_figures(chain, artefacts),
        "held_out": held_out_figures(chain, artefacts, held_out_items(path, settings.seed)),
        "seconds": stage_seconds(chain, artefacts),
    }
    print(write_result("japanese", round_figures(figures), PACKAGES))


def round_figures(figures: Any) -> Any:
    """Round to four digits, at any depth."""
    if isinstance(figures, dict):
        return {name: round_figures(value) for name, value in figures.items()}
    if isinstance(figures, list):
        return [round_figures(value) for value in figures]
    return round(figures, 4) if isinstance(figures, float) else figures


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    add_data_option(parser)
    parser.add_argument("--home", type=Path, required=True, help="where logs, vectors, index and rater are made")
    parser.add_argument("--fraction", type=float, default=1.0, help="of the dialogues that are not held out")
    parser.add_argument("--preset", choices=tuple(PRESETS), default="base", help="of the rater")
    arguments = parser.parse_args()
    require_data(parser, arguments.data)
    return arguments


if __name__ == "__main__":
    main()
