"""How quick the rater is, what other ways of serving it would bring, and how its opinion goes with people's.

    python bench/bench_rater.py                 the first two parts
    python bench/bench_rater.py training        steps at the paper's size, the same examples and first weights
    python bench/bench_rater.py rating          1,000 test pairs, 17 candidates each, with empty and with warm cache
    python bench/bench_rater.py serving         200 test pairs by the same network in other forms and libraries
    python bench/bench_rater.py people --rater NAME --home FOLDER      its ratings of replies that people rated
    python bench/bench_rater.py trained --rater NAME --home FOLDER     how it was trained, and what came of it

Results go to bench/results/rater_<part>.json, those of one rater to rater_<part>_<name>.json. Texts are those of
`logs/small_en.jsonl.gz` of `--data`, replies those of `human/`; without them nothing is measured. The plain way that
the first two parts are compared with is that of the first published code in our own words: single precision, batches
padded to their longest text and read with the padding, features put together in a Python loop. Its weights are ours.
`serving` takes drawn weights of the sizes of `--preset`, or with `--rater` and `--home` those of a trained rater.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import torch
from common import ROOT, median, write_result
from rater_people import SETS, people
from rater_serving import CANDIDATES, Serving, asked_of, dealt_texts, seeded_network, serving, trained_tokenizer
from torch import Tensor, nn

from core.engine import Engine
from core.files import read_json
from core.log_store import StoredLog
from core.pairs import SharedSettings
from core.progress import Silent
from core.text import open_sentencepiece
from core.tokenizer_training import TokenizerTraining, train_sentencepiece
from rater.checkpoint import REPORT, read_manifest
from rater.examples import Corpus, Examples, ExampleSettings, Quadruples
from rater.making import PRESETS
from rater.mining import code, mine, open_corpus, shared_rows, turns_of
from rater.model import BiGRURater, RaterConfig
from rater.rate import Candidate, Rater, ToRate
from rater.train import _logits
from service.artefacts import stored
from service.rating import open_rater
from service.settings import Settings

PACKAGES = ("refaug", "torch", "numpy", "sentencepiece")
_SAID = ("validation_loss", "validation_accuracy", "auc_good_vs_wrong", "hard", "short", "temperature")
THREADS = len(os.sched_getaffinity(0))


def timed(work: Callable[[], Any]) -> tuple[float, Any]:
    """Seconds, and what came of it."""
    began = time.perf_counter()
    result = work()
    return time.perf_counter() - began, result


# ── the plain way ─────────────────────────────────────────────────────────────────────────────────────────────────


def plain_vectors(model: BiGRURater, texts: Sequence[Sequence[int]]) -> Tensor:
    """As they come, filled up with zeros to the longest, which are read as well."""
    longest = max(len(ids) for ids in texts)
    tokens = torch.tensor([[*ids, *[0] * (longest - len(ids))] for ids in texts])
    _, last = model.reader(model.embedding(tokens))
    return torch.cat([last[0], last[1]], dim=1)


def plain_logits(model: BiGRURater, first: Tensor, second: Tensor, third: Tensor) -> Tensor:
    """Features row by row."""
    rows = [torch.cat([first[row], second[row], third[row]]) for row in range(len(first))]
    state = torch.stack(rows)
    for layer in model.hidden:
        state = torch.relu(layer(state))
    logits: Tensor = model.last(state)
    return logits


# ── training ──────────────────────────────────────────────────────────────────────────────────────────────────────


def bench_training(folder: Path, config: RaterConfig, steps: int, batch: int) -> None:
    """The same batches, the same first weights, Adam with the same rate."""
    corpus = open_corpus(folder)
    examples = Examples(corpus, "train", ExampleSettings(batch=batch), config.max_tokens)
    drawn = [some for some, _ in zip(examples.drawn(1), range(steps), strict=False)]
    losses: dict[str, list[float]] = {}
    seconds: dict[str, list[float]] = {}
    for name, step in (("plain", _plain_step), ("ours", _our_step)):
        torch.manual_seed(1)
        model = BiGRURater(config)
        adam = torch.optim.Adam(model.parameters(), lr=1e-3)
        losses[name], seconds[name] = [], []
        for some in drawn:
            taken, loss = timed(
                lambda some=some, model=model, adam=adam, step=step: step(model, adam, examples, corpus, some)
            )
            seconds[name].append(taken)
            losses[name].append(loss)
    count = len(drawn[0].positive)
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


def _our_step(model: BiGRURater, adam: Any, examples: Examples, _corpus: Corpus, some: Quadruples) -> float:
    logits, labels = _logits(model, examples.batch(some), "cpu")
    return _stepped(adam, logits, labels)


def _plain_step(model: BiGRURater, adam: Any, _examples: Examples, corpus: Corpus, some: Quadruples) -> float:
    most = model.config.max_tokens
    begins, ends = corpus.start[:-1], corpus.start[1:]
    columns = [
        plain_vectors(model, [corpus.pieces[begins[t] : ends[t]][:most].tolist() or [1] for t in texts])
        for texts in some.texts.T.tolist()
    ]
    utterance, response, other_utterance, other = columns
    logits = torch.cat(
        [plain_logits(model, utterance, response, other), plain_logits(model, other_utterance, other, response)]
    )
    return _stepped(adam, logits, torch.from_numpy(np.tile(some.positive.astype(np.int64), 2)))


def _stepped(adam: Any, logits: Tensor, labels: Tensor) -> float:
    loss = nn.functional.cross_entropy(logits, labels)
    adam.zero_grad(set_to_none=True)
    loss.backward()
    adam.step()
    return float(loss.detach())


# ── rating ────────────────────────────────────────────────────────────────────────────────────────────────────────


def bench_rating(folder: Path, tokenizer: Any, config: RaterConfig, pairs: int, plain_pairs: int) -> None:
    """Texts of the log, dealt out at random; the plain way on some test pairs, and multiplied up."""
    texts = [text for row in shared_rows(folder) for text in (row["utterance"], *row["responses"])]
    np.random.default_rng(1).shuffle(texts)
    fresh = iter(texts)
    candidates = [tuple(Candidate(text=next(fresh)) for _ in range(CANDIDATES)) for _ in range(pairs)]
    first, second = (
        [ToRate(utterance=next(fresh), golds=(next(fresh),), candidates=some) for some in candidates] for _ in range(2)
    )
    torch.manual_seed(1)
    model = BiGRURater(config)
    rater = Rater(model, tokenizer, threads=THREADS, cache_bytes=1 << 30)
    rater.rate(first[:2])
    rater = Rater(model, tokenizer, threads=THREADS, cache_bytes=1 << 30)
    cold, _ = timed(lambda: rater.rate(first))
    warm, _ = timed(lambda: rater.rate(second))
    with torch.inference_mode():
        plain = [timed(lambda one=one: _plainly_rated(model, tokenizer, one))[0] for one in first[:plain_pairs]]
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


def _plainly_rated(model: BiGRURater, tokenizer: Any, asked: ToRate) -> list[float]:
    most = model.config.max_tokens

    def vectors(texts: Sequence[str]) -> Tensor:
        return plain_vectors(model, [ids[:most] or [1] for ids in tokenizer.encode_ids_batch(list(texts))])

    count = len(asked.candidates)
    logits = plain_logits(
        model,
        vectors([asked.utterance] * count),
        vectors([asked.golds[0]] * count),
        vectors([one.text for one in asked.candidates]),
    )
    return (2 * torch.softmax(logits, dim=1)[:, 1] - 1).tolist()


# ── what both need ────────────────────────────────────────────────────────────────────────────────────────────────


def prepared(data: Path, folder: Path, config: RaterConfig) -> Any:
    """The shared utterances of a log of real dialogues in the folder, and a tokenizer trained on the log."""
    source = data / "logs" / "small_en.jsonl.gz"
    if not source.exists():
        print(f"skipped: {source} is not there; give the folder with --data")
        return None
    refaug = [str(ROOT / ".venv" / "bin" / "refaug"), "--quiet", "--home", str(folder)]
    subprocess.run([*refaug, "ingest", str(source), "--log", "small", "--language", "en"], check=True)
    logs = [StoredLog.open(folder / "logs", "small")]
    with Engine(folder / "scratch", memory=1 << 30, threads=THREADS) as engine:
        mine(engine, logs, SharedSettings(), folder, Silent())
    settings = TokenizerTraining(vocab_size=config.vocabulary - 2, at_most=True, sample=100_000)
    train_sentencepiece(turns_of(logs, Silent()), folder / "tokenizer.model", settings)
    tokenizer = open_sentencepiece(folder / "tokenizer.model")
    code(tokenizer, folder, config.max_tokens, Silent())
    return tokenizer


# ── serving, people ───────────────────────────────────────────────────────────────────────────────────────────────


def bench_serving(data: Path, preset: str, home: Settings, rater: str | None, settings: Serving) -> None:
    """A trained rater, or one of drawn weights with a tokenizer trained on the log."""
    log = data / "logs" / "small_en.jsonl.gz"
    if not log.exists():
        print(f"skipped: {log} is not there; give the folder with --data")
        return
    every = dealt_texts(log)
    texts = iter(every[: settings.texts])
    asked = asked_of(texts, settings.pairs)
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        if rater is None:
            tokenizer = trained_tokenizer(every, folder, preset)
            model, named = seeded_network(preset, tokenizer, asked), {"preset": preset, "weights": "drawn"}
        else:
            trained = open_rater(home, rater)
            model, tokenizer, named = trained.model, trained.tokenizer, {"rater": trained.spec, "weights": "trained"}
        found = serving(model, tokenizer, list(texts), asked, folder, settings)
    onnx = [name for name in ("onnx", "onnxruntime") if find_spec(name) is not None]
    write_result("rater_serving", {**named, **found}, (*PACKAGES, *onnx))


def bench_people(data: Path, home: Settings, rater: str, vectors: str | None, draws: int) -> None:
    """Both sets; `data` may be their own folder as well."""
    folder = data / "human" if (data / "human").is_dir() else data
    missing = [name for name in SETS if not (folder / f"{name}.jsonl.gz").exists()]
    if missing:
        print(f"skipped: {', '.join(missing)} not in {folder}; give the folder with --data")
        return
    write_result(f"rater_people_{_name_of(rater)}", people(folder, home, rater, vectors, draws), PACKAGES)


def bench_trained(home: Settings, rater: str) -> None:
    """What the report of a trained rater says, but for curves and bins; where it was trained is not told by it."""
    with stored(home)["rater"].open(rater) as held:
        stored_rater, report = read_manifest(held.folder), read_json(held.folder / REPORT)
    details = stored_rater.details
    write_result(
        f"rater_trained_{_name_of(rater)}",
        {
            "rater": f"{held.name}@{held.version}#{stored_rater.id[:12]}",
            "logs": sorted(details["logs"]),
            "more_texts": sorted(details["more_texts"]),
            "config": asdict(stored_rater.config),
            "training": {name: details["training"][name] for name in ("epochs", "threads", "dropout", "decay")},
            "examples": report["examples"],
            "epochs": [
                {name: _rounded(epoch[name]) for name in ("epoch", "validation_loss", "auc", "seconds")}
                for epoch in report["epochs"]
            ],
            "seconds": {"stages": details["seconds"], "epochs": sum(epoch["seconds"] for epoch in report["epochs"])},
            "best_epoch": report["best_epoch"],
            **{name: _rounded(report[name]) for name in _SAID},
            "calibration_error": _rounded({name: one["error"] for name, one in report["calibration"].items()}),
        },
        PACKAGES,
    )


def _rounded(said: Any) -> Any:
    """To four digits, wherever there are more."""
    if isinstance(said, dict):
        return {name: _rounded(value) for name, value in said.items()}
    return round(said, 4) if isinstance(said, float) else said


def _name_of(rater: str) -> str:
    return rater.partition("@")[0]


def main() -> None:
    given = _arguments()
    torch.set_num_threads(THREADS)
    home = Settings.from_env() if given.home is None else Settings(home=given.home)
    if given.part == "serving":
        settings = Serving(pairs=given.pairs or 200, runs=given.runs, threads=tuple(sorted({1, min(2, THREADS)})))
        bench_serving(given.data, given.preset, home, given.rater, settings)
        return
    if given.part == "trained":
        bench_trained(home, given.rater)
        return
    if given.part == "people":
        bench_people(given.data, home, given.rater, given.vectors, given.draws)
        return
    config = RaterConfig()
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        tokenizer = prepared(given.data, folder, config)
        if tokenizer is None:
            return
        if given.part in (None, "training"):
            bench_training(folder, config, given.steps, given.batch)
        if given.part in (None, "rating"):
            bench_rating(folder, tokenizer, config, given.pairs or 1_000, given.plain_pairs)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("part", nargs="?", choices=("training", "rating", "serving", "people", "trained"))
    parser.add_argument("--data", type=Path, default=ROOT.parent / "shared" / "data")
    parser.add_argument("--steps", type=int, default=8)
    parser.add_argument("--batch", type=int, default=128)
    parser.add_argument("--pairs", type=int, help="1,000 for rating, 200 for serving")
    parser.add_argument("--plain-pairs", type=int, default=30)
    parser.add_argument("--preset", choices=tuple(PRESETS), default="paper", help="for serving")
    parser.add_argument("--runs", type=int, default=3, help="for serving")
    parser.add_argument("--home", type=Path, help="where the rater is; by default REFAUG_HOME")
    parser.add_argument("--rater", help="for people and trained; for serving, instead of drawn weights")
    parser.add_argument("--vectors", help="for people: word vectors by name or file; by default those of its log")
    parser.add_argument("--draws", type=int, default=10_000, help="for people")
    given = parser.parse_args()
    if given.part in ("people", "trained") and given.rater is None:
        parser.error(f"{given.part} needs --rater NAME")
    return given


if __name__ == "__main__":
    main()
