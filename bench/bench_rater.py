"""How fast the rater is beside the plain way, and how its ratings agree with people's.

    python bench/bench_rater.py --data FOLDER             the first two parts
    python bench/bench_rater.py training --data FOLDER    steps at the paper's size, the same examples and first weights
    python bench/bench_rater.py rating --data FOLDER      1,000 test pairs, 17 candidates each, with and without cache
    python bench/bench_rater.py people --data FOLDER --rater NAME --home HOME   its ratings of replies that people rated
    python bench/bench_rater.py trained --rater NAME --home HOME                how it was trained, with what result

Results go to bench/results/rater_<part>.json, those of one rater to rater_<part>_<name>.json. Texts are those of
`logs/small_en.jsonl.gz` of `--data`, replies those of `human/`; without them nothing is measured. The plain way of
the first two parts rewrites the first published code: single precision, batches padded to their longest text and read
with the padding, features put together in a Python loop. Its weights are ours.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import torch
from common import ROOT, add_data_option, median, require_data, write_result
from rater_people import SETS, people
from torch import Tensor, nn

from refaug.core.artefacts.kinds import artefact_stores
from refaug.core.files import read_json
from refaug.core.home import Settings
from refaug.core.progress import Silent
from refaug.core.query_engine import QueryEngine
from refaug.core.records import Reference
from refaug.core.text.sentencepiece_tokenizer import open_sentencepiece
from refaug.core.text.tokenizer_training import TokenizerTraining, train_sentencepiece
from refaug.logs.pairs import SharedSettings
from refaug.logs.store import StoredLog
from refaug.rater.network_folder import REPORT
from refaug.rater.nn.checkpoint import NNRater, read_manifest
from refaug.rater.nn.model import BiGRURater
from refaug.rater.nn.sizes import RaterConfig
from refaug.rater.rating import RatingRequest
from refaug.rater.training.corpus import code_texts, mine, open_corpus, shared_rows, turns_of
from refaug.rater.training.examples import ExampleCorpus, Examples, ExampleSettings, Quadruples

CANDIDATES = 17
PACKAGES = ("refaug", "torch", "numpy", "sentencepiece")
_SAID = ("validation_loss", "validation_accuracy", "auc_good_vs_wrong", "hard", "short", "temperature")
THREADS = len(os.sched_getaffinity(0))


def time_once(work: Callable[[], Any]) -> tuple[float, Any]:
    """Return the seconds of some work, and its result."""
    began = time.perf_counter()
    returned = work()
    return time.perf_counter() - began, returned


# ── the plain way ─────────────────────────────────────────────────────────────────────────────────────────────────


def plain_vectors(model: BiGRURater, texts: Sequence[Sequence[int]]) -> Tensor:
    """Return vectors of texts as they come, padded with zeros to the longest, which are read as well."""
    longest = max(len(ids) for ids in texts)
    tokens = torch.tensor([[*ids, *[0] * (longest - len(ids))] for ids in texts])
    _, last = model.reader(model.embedding(tokens))
    return torch.cat([last[0], last[1]], dim=1)


def plain_logits(model: BiGRURater, first: Tensor, second: Tensor, third: Tensor) -> Tensor:
    """Return the logits, with the features put together row by row."""
    rows = [torch.cat([first[row], second[row], third[row]]) for row in range(len(first))]
    state = torch.stack(rows)
    for layer in model.hidden:
        state = torch.relu(layer(state))
    logits: Tensor = model.last(state)
    return logits


# ── training ──────────────────────────────────────────────────────────────────────────────────────────────────────


def bench_training(folder: Path, config: RaterConfig, steps: int, batch: int) -> None:
    """Measure training on the same batches from the same first weights, by Adam with the same rate."""
    corpus = open_corpus(folder)
    examples = Examples(corpus, "train", ExampleSettings(batch=batch), config.max_tokens)
    batches = [some for some, _ in zip(examples.draw(1), range(steps), strict=False)]
    losses: dict[str, list[float]] = {}
    seconds: dict[str, list[float]] = {}
    for name, step in (("plain", _plain_step), ("ours", _our_step)):
        torch.manual_seed(1)
        model = BiGRURater(config)
        adam = torch.optim.Adam(model.parameters(), lr=1e-3)
        losses[name], seconds[name] = [], []
        for quadruples in batches:
            step_seconds, loss = time_once(
                lambda some=quadruples, model=model, adam=adam, step=step: step(model, adam, examples, corpus, some)
            )
            seconds[name].append(step_seconds)
            losses[name].append(loss)
    count = len(batches[0].positive)
    write_result(
        "rater_training",
        {
            "preset": "paper",
            "precision": "fp32",
            "threads": THREADS,
            "examples_a_batch": count,
            "steps": steps,
            "seconds_a_step": {name: round(median(every[1:]), 3) for name, every in seconds.items()},
            "examples_a_second": {name: round(count / median(every[1:]), 1) for name, every in seconds.items()},
            "ratio": round(median(seconds["plain"][1:]) / median(seconds["ours"][1:]), 2),
            "losses": {name: [round(one, 5) for one in every] for name, every in losses.items()},
        },
        PACKAGES,
    )


def _our_step(
    model: BiGRURater, adam: Any, examples: Examples, _corpus: ExampleCorpus, quadruples: Quadruples
) -> float:
    batch = examples.batch(quadruples)
    logits = model(torch.from_numpy(batch.tokens), torch.from_numpy(batch.lengths), torch.from_numpy(batch.triplets))
    return _take_step(adam, logits.float(), torch.from_numpy(batch.labels))


def _plain_step(
    model: BiGRURater, adam: Any, _examples: Examples, corpus: ExampleCorpus, quadruples: Quadruples
) -> float:
    most = model.config.max_tokens
    begins, ends = corpus.start[:-1], corpus.start[1:]
    columns = [
        plain_vectors(model, [corpus.pieces[begins[t] : ends[t]][:most].tolist() or [1] for t in texts])
        for texts in quadruples.texts.T.tolist()
    ]
    utterance, response, other_utterance, other = columns
    logits = torch.cat(
        [plain_logits(model, utterance, response, other), plain_logits(model, other_utterance, other, response)]
    )
    return _take_step(adam, logits, torch.from_numpy(np.tile(quadruples.positive.astype(np.int64), 2)))


def _take_step(adam: Any, logits: Tensor, labels: Tensor) -> float:
    loss = nn.functional.cross_entropy(logits, labels)
    adam.zero_grad(set_to_none=True)
    loss.backward()
    adam.step()
    return float(loss.detach())


# ── rating ────────────────────────────────────────────────────────────────────────────────────────────────────────


def bench_rating(folder: Path, tokenizer: Any, config: RaterConfig, pairs: int, plain_pairs: int) -> None:
    """Measure rating of the log's texts, dealt out at random; the plain way on some test pairs, and extrapolated."""
    texts = [text for row in shared_rows(folder) for text in (row["utterance"], *row["responses"])]
    np.random.default_rng(1).shuffle(texts)
    fresh = iter(texts)
    candidates = [tuple(Reference(text=next(fresh)) for _ in range(CANDIDATES)) for _ in range(pairs)]
    first, second = (
        [RatingRequest(utterance=next(fresh), golds=(next(fresh),), candidates=some) for some in candidates]
        for _ in range(2)
    )
    torch.manual_seed(1)
    model = BiGRURater(config)
    rater = NNRater(model, tokenizer, threads=THREADS, cache_bytes=1 << 30)
    rater.rate(first[:2])
    rater = NNRater(model, tokenizer, threads=THREADS, cache_bytes=1 << 30)
    cold, _ = time_once(lambda: rater.rate(first))
    warm, _ = time_once(lambda: rater.rate(second))
    with torch.inference_mode():
        plain = [time_once(lambda one=one: _rate_plainly(model, tokenizer, one))[0] for one in first[:plain_pairs]]
    whole = float(np.mean(plain)) * pairs
    write_result(
        "rater_rating",
        {
            "preset": "paper",
            "precision": "fp32",
            "threads": THREADS,
            "test_pairs": pairs,
            "candidates": CANDIDATES,
            "seconds": {"cold": round(cold, 2), "warm": round(warm, 2), "plain_extrapolated": round(whole, 1)},
            "plain_pairs_timed": plain_pairs,
            "ratio_cold": round(whole / cold, 1),
            "ratio_warm": round(whole / warm, 1),
        },
        PACKAGES,
    )


def _rate_plainly(model: BiGRURater, tokenizer: Any, test_pair: RatingRequest) -> list[float]:
    most = model.config.max_tokens

    def vectors(texts: Sequence[str]) -> Tensor:
        return plain_vectors(model, [ids[:most] or [1] for ids in tokenizer.encode_ids_batch(list(texts))])

    count = len(test_pair.candidates)
    logits = plain_logits(
        model,
        vectors([test_pair.utterance] * count),
        vectors([test_pair.golds[0]] * count),
        vectors([one.text for one in test_pair.candidates]),
    )
    return (2 * torch.softmax(logits, dim=1)[:, 1] - 1).tolist()


# ── what both need ────────────────────────────────────────────────────────────────────────────────────────────────


def prepare_corpus(data_folder: Path, folder: Path, config: RaterConfig) -> Any:
    """Write the shared utterances of a log of real dialogues into the folder, and return a tokenizer trained on it."""
    source = data_folder / "logs" / "small_en.jsonl.gz"
    if not source.exists():
        print(f"skipped: {source} is not there; give the folder with --data")
        return None
    refaug = [str(ROOT / ".venv" / "bin" / "refaug"), "--quiet", "--home", str(folder)]
    subprocess.run([*refaug, "log", "ingest", str(source), "--log", "small", "--language", "en"], check=True)
    logs = [StoredLog.open(folder / "logs", "small")]
    with QueryEngine(folder / "scratch", memory=1 << 30, threads=THREADS) as engine:
        mine(engine, logs, SharedSettings(), folder, Silent())
    settings = TokenizerTraining(vocab_size=config.vocabulary - 2, at_most=True, sample=100_000)
    train_sentencepiece(turns_of(logs, Silent()), folder / "tokenizer.model", settings)
    tokenizer = open_sentencepiece(folder / "tokenizer.model")
    code_texts(tokenizer, folder, config.max_tokens, Silent())
    return tokenizer


# ── people ───────────────────────────────────────────────────────────────────────────────────────────────────────


def bench_people(data_folder: Path, home: Settings, rater: str, vectors: str | None, draws: int) -> None:
    """Measure agreement on both sets; `data_folder` may be their own folder as well."""
    folder = data_folder / "human" if (data_folder / "human").is_dir() else data_folder
    missing = [name for name in SETS if not (folder / f"{name}.jsonl.gz").exists()]
    if missing:
        print(f"skipped: {', '.join(missing)} not in {folder}; give the folder with --data")
        return
    write_result(f"rater_people_{_name_of(rater)}", people(folder, home, rater, vectors, draws), PACKAGES)


def bench_trained(home: Settings, rater: str) -> None:
    """Write the report of a trained rater without curves and bins; it does not say where it was trained."""
    with artefact_stores(home)["rater"].open(rater) as open_version:
        stored_rater, report = read_manifest(open_version.folder), read_json(open_version.folder / REPORT)
    details = stored_rater.details
    write_result(
        f"rater_trained_{_name_of(rater)}",
        {
            "rater": f"{open_version.name}@{open_version.version}#{stored_rater.id[:12]}",
            "logs": sorted(details["logs"]),
            "more_texts": sorted(details["more_texts"]),
            "config": asdict(stored_rater.config),
            "training": {name: details["training"][name] for name in ("epochs", "threads", "dropout", "decay")},
            "examples": report["examples"],
            "epochs": [
                {name: round_figures(epoch[name]) for name in ("epoch", "validation_loss", "auc", "seconds")}
                for epoch in report["epochs"]
            ],
            "seconds": {"stages": details["seconds"], "epochs": sum(epoch["seconds"] for epoch in report["epochs"])},
            "best_epoch": report["best_epoch"],
            **{name: round_figures(report[name]) for name in _SAID},
            "calibration_error": round_figures({name: one["error"] for name, one in report["calibration"].items()}),
        },
        PACKAGES,
    )


def round_figures(figures: Any) -> Any:
    """Round to four digits, at any depth."""
    if isinstance(figures, dict):
        return {name: round_figures(value) for name, value in figures.items()}
    return round(figures, 4) if isinstance(figures, float) else figures


def _name_of(rater: str) -> str:
    return rater.partition("@")[0]


def main() -> None:
    arguments = _arguments()
    torch.set_num_threads(THREADS)
    home = Settings.from_env() if arguments.home is None else Settings(home=arguments.home)
    if arguments.part == "trained":
        bench_trained(home, arguments.rater)
        return
    if arguments.part == "people":
        bench_people(arguments.data, home, arguments.rater, arguments.vectors, arguments.draws)
        return
    config = RaterConfig()
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        tokenizer = prepare_corpus(arguments.data, folder, config)
        if tokenizer is None:
            return
        if arguments.part in (None, "training"):
            bench_training(folder, config, arguments.steps, arguments.batch)
        if arguments.part in (None, "rating"):
            bench_rating(folder, tokenizer, config, arguments.pairs, arguments.plain_pairs)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("part", nargs="?", choices=("training", "rating", "people", "trained"))
    add_data_option(parser)
    parser.add_argument("--steps", type=int, default=8)
    parser.add_argument("--batch", type=int, default=128)
    parser.add_argument("--pairs", type=int, default=1_000, help="for rating")
    parser.add_argument("--plain-pairs", type=int, default=30)
    parser.add_argument("--home", type=Path, help="where the rater is; by default REFAUG_HOME")
    parser.add_argument("--rater", help="for people and trained")
    parser.add_argument("--vectors", help="for people: word vectors by name or file; by default those of its log")
    parser.add_argument("--draws", type=int, default=10_000, help="for people")
    arguments = parser.parse_args()
    if arguments.part in ("people", "trained") and arguments.rater is None:
        parser.error(f"{arguments.part} needs --rater NAME")
    if arguments.part != "trained":
        require_data(parser, arguments.data)
    return arguments


if __name__ == "__main__":
    main()
