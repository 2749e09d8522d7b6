"""What the code that Tsuta et al. (2020) released computes for items of ours: `tests/released_chain.npz`.

    python bench/released_chain.py --released CHECKOUT

CHECKOUT is a clone of their repository; its scripts run as they are, in processes of their own, on material that is
made here: a log and items out of the demo log, drawn word vectors, and a rater with drawn weights. Nothing of theirs
gets into the file but numbers: which lines of the log were retrieved, ratings, and scores.

Three runs:

- `chain`: 200 items, 2,000 lines, retrieval, ratings and scores; the scripts read the log's utterances without their
  line ends.
- `line-ends`: the same as the script reads the log itself: it leaves the line end at the last word of each utterance
  of the log, which so counts as unknown.
- `crowded`: 20 items on a log with repeated lines, utterances of equal words, and golds and utterances of the items
  as responses; retrieval alone, of 100 lines an item.

What the scripts need to run: a log whose number of lines is a multiple of their batch of 100; both switches
`-add_utr` and `-add_rpl` for parrot and gold; vectors with the word `unk`, and without a 0 (each dimension of a mean is
divided by the number of words that are not 0 there); the packages `tqdm` and `nltk`; and a module that gensim no
longer has, which they import and do not use here: an empty one stands in for it.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import random
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
import orjson
import sentencepiece
import torch
from numpy.typing import NDArray

from refaug.core.text.normalisation import normalise
from refaug.core.text.sentencepiece_tokenizer import SentencePieceTokenizer, open_sentencepiece
from refaug.core.text.tokenizers import get_tokenizer
from refaug.logs.demo.demo_items import DemoItemSettings, demo_item_lines
from refaug.logs.demo.generator import DemoSettings, demo_log_lines
from refaug.rater.nn.model import BiGRURater
from refaug.rater.nn.sizes import RaterConfig

OUTPUT: Final = Path(__file__).resolve().parents[1] / "tests" / "released_chain.npz"
SEED: Final = 20
ITEMS, LINES = 200, 2_000
CROWDED_ITEMS, CROWDED_LINES, CROWDED_RETRIEVED = 20, 1_000, 100
DIMENSIONS: Final = 12
RARE_WORDS: Final = 2  # words of fewer lines have no vector, so that unknown words occur
SYSTEMS: Final = ("human-like", "decent", "generic")
LEAST_GAP: Final = 2e-5  # between similarities that are ranked; refaug tells them apart to 1e-6, the scripts to float32
SPREAD: Final = 2.2  # of drawn weights; as torch draws them, all texts are rated alike
LEANING: Final = -0.3  # away from positive ratings, so that some are negative; each item needs a positive one
READ: Final = 15  # lines that the score reads: parrot, gold, 13 retrieved
Pair = tuple[str, str]  # utterance and response

_WITHOUT_LINE_ENDS: Final = """
import builtins, runpy, sys
_open = builtins.open
def _lines(path, *arguments, **named):
    file = _open(path, *arguments, **named)
    return [line.rstrip("\\n") for line in file] if str(path).endswith("tokenized_utterance") else file
builtins.open = _lines
sys.argv = sys.argv[1:]
runpy.run_path(sys.argv[0], run_name="__main__")
"""
_PRINT_SCORES: Final = """
import json, sys
import multiBleu
_, _, weighted = multiBleu.main(multiBleu.parserSetting().parse_args())
json.dump(weighted, sys.stdout)
"""


@dataclass(frozen=True, kw_only=True)
class Material:
    """What the scripts and refaug compute from."""

    log: list[Pair]
    items: list[dict[str, Any]]
    vectors: dict[str, list[float]]  # of `<unk>` too
    crowded_log: list[Pair]


# ── material ──────────────────────────────────────────────────────────────────────────────────────────────────────


def make_material() -> Material:
    """Make a log without repetitions, items, word vectors, and a log with repetitions."""
    items = [_test_item(json.loads(line)) for line in demo_item_lines(DemoItemSettings(items=2 * ITEMS, seed=SEED))]
    pairs = list(_pairs_of_demo_log())
    own = [normalise(text) for test_item in items for text in (test_item["utterance"], *test_item["references"])]
    log = list(_distinct(pairs, own))[:LINES]
    vectors = _word_vectors(log)
    places = _clear_places([test_item["utterance"] for test_item in items], log, vectors)
    clear = [items[place] for place in places[:ITEMS]]
    if len(log) < LINES or len(clear) < ITEMS:
        sys.exit(f"{len(log):,} lines and {len(clear):,} items: take more dialogues and items")
    return Material(log=log, items=clear, vectors=vectors, crowded_log=_crowded(pairs, clear[:CROWDED_ITEMS]))


def _test_item(row: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "id": row["id"],
        "utterance": _spaced(row["utterance"]),
        "references": [_spaced(row["references"][0])],
        "replies": {system: _spaced(row["replies"][system]) for system in SYSTEMS},
    }


def _spaced(text: str) -> str:
    """Return the tokens with single spaces between, which both sides split alike."""
    return " ".join(get_tokenizer("word").tokenize(text))


def _pairs_of_demo_log() -> Iterator[Pair]:
    for line in demo_log_lines(DemoSettings(dialogues=3_000, seed=SEED, noise=0.08)):
        turns = [_spaced(turn["text"]) for turn in json.loads(line)["turns"]]
        yield from itertools.pairwise(turns)


def _distinct(pairs: Sequence[Pair], own: Sequence[str]) -> Iterator[Pair]:
    """Yield pairs of which no two have utterances of the same words, or equal responses, or responses like a gold."""
    bags, responses = set[tuple[str, ...]](), set[str]()
    words_of_own = [frozenset(text.split()) for text in own]
    for utterance, response in pairs:
        bag, plain = tuple(sorted(normalise(utterance).split())), normalise(response)
        if bag in bags or plain in responses or len(bag) < 3:
            continue
        words = frozenset(plain.split())
        if any(len(words & other) >= 0.8 * len(words | other) for other in words_of_own):
            continue
        bags.add(bag)
        responses.add(plain)
        yield utterance, response


def _word_vectors(log: Sequence[Pair]) -> dict[str, list[float]]:
    """Draw a vector for each word that is in enough utterances, and one for unknown words."""
    rng, counts = np.random.default_rng(SEED), dict[str, int]()
    for utterance, _ in log:
        for word in set(utterance.split()):
            counts[word] = counts.get(word, 0) + 1
    words = ["<unk>", *sorted(word for word, count in counts.items() if count >= RARE_WORDS)]
    common = rng.standard_normal(DIMENSIONS)  # as in trained vectors, words have something in common
    rows = (rng.standard_normal((len(words), DIMENSIONS)) + 0.5 * common) * rng.uniform(0.5, 2, (len(words), 1))
    rounded = np.round(rows, 3)
    rounded[rounded == 0] = 0.001
    return dict(zip(words, rounded.tolist(), strict=True))


def _clear_places(utterances: Sequence[str], log: Sequence[Pair], vectors: Mapping[str, Sequence[float]]) -> list[int]:
    """Return the utterances whose best lines rank by no rounding, with the log's line ends and without them."""
    queries, clear = _means([utterance.split() for utterance in utterances], vectors), np.ones(len(utterances), bool)
    for lines in ([line.split() for line, _ in log], [[*line.split()[:-1], "\n"] for line, _ in log]):
        best = np.sort(queries @ _means(lines, vectors).T, axis=1)[:, ::-1][:, : READ + 1]
        clear &= np.diff(best, axis=1).max(axis=1) < -LEAST_GAP
    has_known_word = [any(word in vectors for word in utterance.split()) for utterance in utterances]
    return np.flatnonzero(clear & has_known_word).tolist()


def _means(texts: Sequence[Sequence[str]], vectors: Mapping[str, Sequence[float]]) -> NDArray[np.float64]:
    """Return unit vectors of texts: means of the words' unit vectors."""
    units = {word: np.array(row) / np.linalg.norm(row) for word, row in vectors.items()}
    rows = np.array([np.sum([units.get(word, units["<unk>"]) for word in text], axis=0) for text in texts])
    return np.asarray(rows / np.linalg.norm(rows, axis=1, keepdims=True))


def _crowded(pairs: Sequence[Pair], items: Sequence[Mapping[str, Any]]) -> list[Pair]:
    """Return a log as people write it: with repeated lines, several responses to an utterance, and the items' texts."""
    rng = random.Random(SEED)
    written = dict[str, str]()  # refaug takes utterances for equal that differ in signs alone: here none do
    lines = [(written.setdefault(normalise(said), said), response) for said, response in pairs[: CROWDED_LINES // 2]]
    for test_item in items:
        utterance, gold = test_item["utterance"], test_item["references"][0]
        shuffled = utterance.split()
        rng.shuffle(shuffled)
        lines += [(utterance, gold), (utterance, utterance), (rng.choice(lines)[0], gold)]
        lines += [(said, rng.choice(pairs)[1]) for said in (utterance, utterance, " ".join(shuffled))]
    lines += [rng.choice(lines) for _ in range(CROWDED_LINES - len(lines))]
    rng.shuffle(lines)
    return lines


def make_rater(texts: Sequence[str], folder: Path) -> tuple[BiGRURater, SentencePieceTokenizer]:
    """Draw a small rater with the layers of the paper, whose ratings of these texts differ in size and sign."""
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(sorted(set(texts))),
        model_prefix=str(folder / "pieces"),
        vocab_size=600,
        normalization_rule_name="identity",  # the table of another rule is most of a small model
        pad_id=0,
        unk_id=1,
        bos_id=-1,
        eos_id=-1,
        num_threads=1,
        minloglevel=2,
    )
    tokenizer = open_sentencepiece(folder / "pieces.model")
    torch.manual_seed(SEED)
    config = RaterConfig(vocabulary=tokenizer.vocab_size, embedding=16, hidden=16, width=24, layers=5, max_tokens=128)
    model = BiGRURater(config)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(SPREAD)
        model.last.bias += torch.tensor([-LEANING, LEANING])
    return model, tokenizer


# ── the released scripts ──────────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, kw_only=True)
class ReleasedCode:
    """A checkout, and a folder for what its scripts read and write."""

    checkout: Path
    work: Path

    @property
    def scripts(self) -> Path:
        """The folder of the scripts."""
        return self.checkout / "src" / "bleu_type_metrics"

    def run(self, *command: object) -> str:
        """Run Python on a script or a program, with an empty module where gensim has none any more."""
        stub = self.work / "stub" / "gensim" / "summarization"
        stub.mkdir(parents=True, exist_ok=True)
        (stub.parent / "__init__.py").touch()
        (stub / "__init__.py").touch()
        (stub / "bm25.py").write_text("BM25 = None\n")
        paths = os.pathsep.join(map(str, (self.work / "stub", self.scripts, self.scripts / "nn_rater")))
        environment = {**os.environ, "PYTHONPATH": paths, "OMP_NUM_THREADS": "1"}
        done = subprocess.run(
            [sys.executable, *map(str, command)],
            env=environment,
            cwd=self.work,
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode:
            sys.exit(f"{command[0]} ended with {done.returncode}:\n{done.stderr[-3_000:]}")
        return done.stdout

    def write_vectors(self, vectors: Mapping[str, Sequence[float]]) -> None:
        """Write word vectors as text; the scripts' unknown word is called `unk`."""
        names = {"<unk>": "unk"}
        lines = (f"{names.get(word, word)} {' '.join(map(str, row))}" for word, row in vectors.items())
        _write_lines(self.work / "vectors.txt", lines)

    def write_log(self, log: Sequence[Pair]) -> None:
        """Write the log, tokenized and as it is; these texts are the same."""
        for folder, prefix in (("corpus", ""), ("corpus/tokenized", "tokenized_")):
            (self.work / folder).mkdir(parents=True, exist_ok=True)
            _write_lines(self.work / folder / f"{prefix}utterance", (utterance for utterance, _ in log))
            _write_lines(self.work / folder / f"{prefix}reply", (response for _, response in log))

    def write_items(self, items: Sequence[Mapping[str, Any]]) -> None:
        """Write utterances and golds."""
        (self.work / "test").mkdir(exist_ok=True)
        _write_lines(self.work / "test" / "ref.utr", (test_item["utterance"] for test_item in items))
        _write_lines(self.work / "test" / "ref.rep", (test_item["references"][0] for test_item in items))

    def write_rater(self, model: BiGRURater, tokenizer: SentencePieceTokenizer) -> None:
        """Write the weights under the scripts' names, and a dictionary with the ids of the tokenizer."""
        weights = model.state_dict()
        layers = model.config.layers - 1
        ffnn = {}
        for part in ("weight", "bias"):
            ffnn[f"input.{part}"] = weights[f"hidden.0.{part}"]
            ffnn |= {f"hidden.{at}.{part}": weights[f"hidden.{at + 1}.{part}"] for at in range(layers)}
            ffnn[f"output.{part}"] = weights[f"last.{part}"]
        gru = {name.replace("reader.", "gru."): row for name, row in weights.items() if name.startswith("reader.")}
        embedding = {"weight": weights["embedding.weight"]}
        sizes = {"gru_hidden_size": 16, "gru_n_layers": 1, "ffnn_hidden_size": 24, "ffnn_n_layers": layers + 1}
        folder = self.work / "rater"
        folder.mkdir()
        parts = {"gru": gru | {f"embedding.{name}": row for name, row in embedding.items()}, "ffnn": ffnn}
        torch.save(
            {
                **parts,
                "embedding": embedding,
                "gru_opt": {},
                "ffnn_opt": {},
                "param": {**sizes, "lr": 1e-3, "read": str(folder), "batch_size": 1_000},
            },
            folder / "model.tar",
        )
        # Ids follow the counts: pad and unk come first on both sides, and then the pieces in the tokenizer's order.
        pieces = tokenizer.pieces[2:]
        counts = {piece: len(pieces) - place for place, piece in enumerate(pieces)}
        program = "import json, pickle, sys; pickle.dump(json.load(sys.stdin), open(sys.argv[1], 'wb'))"
        for name, content in (("train", []), ("valid", []), ("dict", [counts, len(pieces)])):
            subprocess.run(
                [sys.executable, "-c", program, str(folder / f"{name}.pkl")],
                input=json.dumps(content).encode(),
                check=True,
            )

    def retrieve(self, name: str, *, line_ends: bool, count: int = READ) -> Path:
        """Run the retrieval, and return the folder with a file of candidates for each item."""
        script = self.scripts / "collectRsponses.py"
        driver = self.work / "without_line_ends.py"
        driver.write_text(_WITHOUT_LINE_ENDS)
        options = ("-tokenize", "tokenized", "-vector", "vectors.txt", "-method", "embedding", "-target", "utr")
        options += (
            "-corpus_original",
            "corpus",
            "-add_utr",
            "-add_rpl",
            "-n_cand",
            str(count),
            "-wp",
            f"retrieved/{name}",
        )
        self.run(*([] if line_ends else [driver]), script, "test", "corpus/tokenized", *options)
        return self.work / "retrieved" / name

    def rate(self, candidates: Path) -> None:
        """Run the rater, which writes a file of ratings beside each file of candidates."""
        script = self.scripts / "nn_rater" / "test.py"
        options = ("-tokenize", "sentencepiece", "-train", "pieces.model")
        self.run(script, "test", candidates, "rater/model.tar", *options)

    def score(self, candidates: Path, replies: Sequence[str]) -> list[float]:
        """Run the score of one reply for each item."""
        _write_lines(self.work / "test" / "gen.rep", replies)
        _write_lines(self.work / "test" / "human_score", ("1,2" for _ in replies))
        printed = self.run("-c", _PRINT_SCORES, "test", candidates, "-tokenize", "tokenized", "-size", str(READ))
        scores: list[float] = json.loads(printed)
        return scores


def _write_lines(path: Path, lines: Any) -> None:
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")


def _read_lines(path: Path) -> list[str]:
    return path.read_text(encoding="utf-8").splitlines()


# ── what it gives ─────────────────────────────────────────────────────────────────────────────────────────────────


def chain_figures(code: ReleasedCode, material: Material, name: str, *, line_ends: bool) -> dict[str, Any]:
    """Return the retrieved lines, ratings in the order parrot, gold, retrieved, and scores (systems, items)."""
    candidates = code.retrieve(name, line_ends=line_ends)
    code.rate(candidates)
    ratings = [
        [float(line) for line in _read_lines(candidates / f"candidate_{place}_predictions.txt")[:READ]]
        for place in range(len(material.items))
    ]
    scores = [
        code.score(candidates, [test_item["replies"][system] for test_item in material.items]) for system in SYSTEMS
    ]
    retrieved = retrieved_lines(candidates, material.log, material.items)
    return {
        f"{name}.retrieved": np.array(retrieved, np.int16)[:, : READ - 2],
        f"{name}.ratings": np.array(ratings),
        f"{name}.scores": np.array(scores),
    }


def retrieved_lines(candidates: Path, log: Sequence[Pair], items: Sequence[Mapping[str, Any]]) -> list[list[int]]:
    """Return for each item which lines of the log were retrieved; of equal lines the first."""
    places = dict[Pair, int]()
    for place, pair in enumerate(log):
        places.setdefault(pair, place)
    lines = []
    for place, test_item in enumerate(items):
        utterances, responses = (_read_lines(candidates / f"candidate_{place}_{side}.txt") for side in ("utr", "rpl"))
        assert responses[:2] == [test_item["utterance"], test_item["references"][0]]
        lines.append([places[pair] for pair in zip(utterances[2:], responses[2:], strict=True)])
    return lines


def measure(checkout: Path, work: Path) -> dict[str, Any]:
    """Make the material, run the scripts on it, and return everything that the file holds."""
    material = make_material()
    texts = [text for pair in material.log for text in pair]
    texts += [text for test_item in material.items for text in (test_item["utterance"], *test_item["references"])]
    model, tokenizer = make_rater(texts, work)
    code = ReleasedCode(checkout=checkout, work=work)
    code.write_vectors(material.vectors)
    code.write_log(material.log)
    code.write_items(material.items)
    code.write_rater(model, tokenizer)
    figures = chain_figures(code, material, "chain", line_ends=False)
    figures |= chain_figures(code, material, "line-ends", line_ends=True)
    crowded_items = material.items[:CROWDED_ITEMS]
    code.write_items(crowded_items)
    code.write_log(material.crowded_log)
    crowded = code.retrieve("crowded", line_ends=False, count=CROWDED_RETRIEVED)
    figures["crowded.retrieved"] = np.array(retrieved_lines(crowded, material.crowded_log, crowded_items), np.int16)
    texts_of_ours = {**asdict(material), "vectors": list(material.vectors), "config": asdict(model.config)}
    return {
        "material": np.frombuffer(orjson.dumps(texts_of_ours), np.uint8),
        "vectors": np.array(list(material.vectors.values()), np.float32),
        "pieces": np.frombuffer((work / "pieces.model").read_bytes(), np.uint8),
        **{f"rater.{name}": row.numpy() for name, row in model.state_dict().items()},
        **figures,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--released", type=Path, required=True, help="a clone of the repository of Tsuta et al. (2020)")
    parser.add_argument("--output", type=Path, default=OUTPUT)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as work:
        figures = measure(arguments.released.resolve(), Path(work))
    np.savez_compressed(arguments.output, allow_pickle=False, **figures)
    ratings = figures["chain.ratings"]
    print(f"{arguments.output}: {arguments.output.stat().st_size:,} bytes")
    print(f"ratings from {ratings.min():.3f} to {ratings.max():.3f}, {(ratings > 0).mean():.2f} of them above 0")
    print(f"the least of the items' best ratings: {ratings.max(axis=1).min():.3f}")
    equal = figures["chain.retrieved"][:, :, None] == figures["line-ends.retrieved"][:, None, :]
    print(f"retrieved with line ends as without: {equal.any(axis=2).mean():.3f}")
    for name in ("chain", "line-ends"):
        for system, scores in zip(SYSTEMS, figures[f"{name}.scores"], strict=True):
            print(f"{name} {system}: mean {scores.mean():.4f}, above 0: {(scores > 0).mean():.2f}")


if __name__ == "__main__":
    main()
