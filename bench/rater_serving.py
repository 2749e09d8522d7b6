"""One network served in several variants: how fast each is, how far its ratings move, how large its weights are.

`project` is what `refaug.rater.nn.checkpoint` does, and what the others are compared with. They take its place inside
the same Rater, so that tokenising, batches and order are the same for all, and only the network differs.
"""

from __future__ import annotations

import copy
import gzip
import json
import logging
import os
import statistics
import subprocess
import sys
import time
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final, cast

import numpy as np
import torch
from numpy.typing import NDArray
from rater_onnx import JUDGE, READ_AT_ONCE, READER, Sessions, padded, write_graphs
from torch import Tensor, nn

from refaug.core.records import Reference
from refaug.core.text.sentencepiece_tokenizer import SentencePieceTokenizer, open_sentencepiece
from refaug.core.text.tokenizer_training import TokenizerTraining, train_sentencepiece
from refaug.rater.nn.build import PRESETS
from refaug.rater.nn.checkpoint import NNRater, save_rater
from refaug.rater.nn.model import POSITIVE, BiGRURater, RaterConfig
from refaug.rater.rating import Rater, RatingRequest

CANDIDATES: Final = 17
SAME: Final = 1e-5  # how far a rating may differ between requests
STATIC: Final = "static"  # folder of the quantised graphs
_CALIBRATED_ON: Final = 4  # batches
_ALONE: Final = 3  # test pairs that are rated one by one as well
_STARTED_WITH: Final = 10  # test pairs that a new process rates
_PROCESS: Final = Path(__file__).with_name("rater_process.py")

Ratings = NDArray[np.float64]


@dataclass(frozen=True, kw_only=True)
class Serving:
    """How much is measured."""

    pairs: int = 200
    runs: int = 3
    threads: tuple[int, ...] = (1, 2)

    @property
    def texts(self) -> int:
        """The number of texts needed: those that are rated, and others that the static scales are computed from."""
        return self.pairs * (CANDIDATES + 2) + _CALIBRATED_ON * READ_AT_ONCE


@dataclass(frozen=True)
class Variant:
    """A network that can stand in the project's place, and the bytes of its weights."""

    network: nn.Module
    weight_bytes: int


# ── texts and networks ────────────────────────────────────────────────────────────────────────────────────────────


def shuffled_texts(log: Path) -> list[str]:
    """Return the distinct turns of a log of dialogues, shuffled."""
    distinct = dict[str, None]()
    with gzip.open(log, "rt", encoding="utf-8") as lines:
        for line in lines:
            distinct |= dict.fromkeys(json.loads(line)["turns"])
    texts = list(distinct)
    np.random.default_rng(1).shuffle(texts)
    return texts


def make_test_pairs(texts: Iterator[str], pairs: int) -> list[RatingRequest]:
    """Return test pairs of one gold and 17 candidates, no text twice."""
    return [
        RatingRequest(
            utterance=next(texts),
            golds=(next(texts),),
            candidates=tuple(Reference(text=next(texts)) for _ in range(CANDIDATES)),
        )
        for _ in range(pairs)
    ]


def train_tokenizer(texts: Sequence[str], folder: Path, preset: str) -> SentencePieceTokenizer:
    """Train a tokenizer with as many pieces as the preset has."""
    settings = TokenizerTraining(vocab_size=PRESETS[preset].pieces, at_most=True, sample=100_000)
    train_sentencepiece(iter(texts), folder / "tokenizer.model", settings)
    return open_sentencepiece(folder / "tokenizer.model")


def seeded_network(preset: str, tokenizer: SentencePieceTokenizer, test_pairs: Sequence[RatingRequest]) -> BiGRURater:
    """Return a network of the preset's sizes with drawn weights, whose ratings spread over the whole scale.

    As torch draws them, every text gets about the same rating, and no variant could move it. So the layers are drawn so
    that they preserve differences (He et al. 2015), and the last one is stretched until the log-odds of the test pairs
    have mean 0 and deviation 2.
    """
    sizes = PRESETS[preset]
    torch.manual_seed(1)
    model = BiGRURater(
        RaterConfig(
            vocabulary=tokenizer.vocab_size,
            embedding=sizes.embedding,
            hidden=sizes.hidden,
            width=sizes.width,
            features=sizes.features,
        )
    )
    for layer in model.hidden:
        nn.init.kaiming_normal_(cast("nn.Linear", layer).weight, nonlinearity="relu")
    likely, _ = NNRater(model, tokenizer).probabilities(test_pairs, second=False)
    odds = np.log(likely / (1 - likely))
    with torch.no_grad():
        stretch = 2 / float(odds.std())
        model.last.weight.mul_(stretch)
        model.last.bias.mul_(stretch)
        model.last.bias[POSITIVE] -= stretch * float(odds.mean())
    return model.eval()


# ── variants ──────────────────────────────────────────────────────────────────────────────────────────────────────


def round_to_int8(model: BiGRURater) -> Variant:
    """Round every row of every matrix to 255 steps of its largest number; single precision again when loaded."""
    rounded, size = copy.deepcopy(model), 0
    with torch.no_grad():
        for weight in rounded.parameters():
            if weight.dim() < 2:
                size += 4 * weight.numel()
                continue
            step = weight.abs().amax(dim=1, keepdim=True).clamp_min(torch.finfo(torch.float32).tiny) / 127
            weight.copy_((weight / step).round() * step)
            size += weight.numel() + 4 * len(weight)
    return Variant(rounded, size)


def dynamic_int8(model: BiGRURater) -> Variant:
    """Quantise with torch: weights of layers and of the Bi-GRU in int8, activations scaled by each batch."""
    from torch.ao import quantization  # noqa: PLC0415  deprecated: not every torch has it

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        quantize: Any = quantization.quantize_dynamic
        smaller = quantize(copy.deepcopy(model), {nn.GRU, nn.Linear}, dtype=torch.qint8)
    matrices = [weight for name, weight in model.named_parameters() if weight.dim() > 1 and "embedding" not in name]
    return Variant(smaller, _bytes_of(model) - 3 * sum(weight.numel() for weight in matrices))


class HalfPrecisionRater(BiGRURater):
    """The network in bfloat16; cached vectors and results are in single precision."""

    def read(self, tokens: Tensor, lengths: Tensor) -> Tensor:
        """Read texts as the network does."""
        return super().read(tokens, lengths).float()

    def judge(self, utterances: Tensor, golds: Tensor, candidates: Tensor) -> Tensor:
        """Judge triplets as the network does."""
        return super().judge(utterances.bfloat16(), golds.bfloat16(), candidates.bfloat16()).float()


def to_bfloat16(model: BiGRURater) -> Variant:
    """Return the network with all weights and sums in bfloat16."""
    halves = HalfPrecisionRater(model.config)
    halves.load_state_dict(model.state_dict())
    return Variant(halves.bfloat16(), _bytes_of(model) // 2)


class OnnxNetwork(nn.Module):
    """The graphs where a Rater expects the network."""

    def __init__(self, config: RaterConfig, sessions: Sessions) -> None:
        super().__init__()
        self.config, self._sessions = config, sessions

    def read(self, tokens: Tensor, lengths: Tensor) -> Tensor:
        """Read texts as the network does."""
        return torch.from_numpy(self._sessions.read(tokens.numpy(), lengths.numpy()))

    def judge(self, *vectors: Tensor) -> Tensor:
        """Judge triplets as the network does."""
        return torch.from_numpy(self._sessions.logits_of(*(one.numpy() for one in vectors)))


def open_graphs(config: RaterConfig, folder: Path, threads: int) -> Variant:
    """Open the graphs in a folder; their files are their weights."""
    size = sum((folder / name).stat().st_size for name in (READER, JUDGE))
    return Variant(OnnxNetwork(config, Sessions.open(folder, threads=threads)), size)


def write_static(folder: Path, tokenizer: SentencePieceTokenizer, texts: Sequence[str], max_tokens: int) -> None:
    """Write the graphs again in int8, scales computed once from these texts; the GRU has no such form."""
    from onnxruntime.quantization import (  # noqa: PLC0415  needs onnx
        CalibrationDataReader,
        QuantFormat,
        QuantType,
        quantize_static,
    )

    class CalibrationBatches(CalibrationDataReader):  # type: ignore[misc]
        def __init__(self, batches: Sequence[Mapping[str, Any]]) -> None:
            self._batches = iter(batches)

        def get_next(self) -> Mapping[str, Any] | None:
            return next(self._batches, None)

    coded = sorted((ids[:max_tokens] or [tokenizer.unk_id] for ids in tokenizer.encode_ids_batch(texts)), key=len)
    batches = [padded(coded[at : at + READ_AT_ONCE]) for at in range(0, len(coded), READ_AT_ONCE)]
    sessions = Sessions.open(folder, threads=1)
    vectors = np.concatenate([sessions.read(*batch) for batch in batches])
    np.random.default_rng(1).shuffle(vectors)
    thirds = np.array_split(vectors[: len(vectors) // 3 * 3], 3)
    inputs: dict[str, list[Mapping[str, Any]]] = {
        READER: [{"tokens": tokens, "lengths": lengths.astype(np.int32)} for tokens, lengths in batches],
        JUDGE: [dict(zip(("utterances", "known", "others"), thirds, strict=True))],
    }
    (folder / STATIC).mkdir(exist_ok=True)
    logging.disable(logging.WARNING)  # advice on preparing graphs that come from elsewhere
    for name, kind in ((READER, "Gather"), (JUDGE, "Gemm")):
        quantize_static(
            folder / name,
            folder / STATIC / name,
            CalibrationBatches(inputs[name]),
            quant_format=QuantFormat.QDQ,
            op_types_to_quantize=[kind],
            per_channel=True,
            activation_type=QuantType.QUInt8,
            weight_type=QuantType.QInt8,
        )


def _bytes_of(model: nn.Module) -> int:
    return sum(4 * weight.numel() for weight in model.parameters())


VARIANTS: Final = {
    "project": "torch in single precision, texts packed by length: what refaug.rater.nn.checkpoint does",
    "int8_weights": "weights kept in int8 by row, in single precision once they are loaded",
    "torch_bf16": "weights and sums in bfloat16",
    "torch_dynamic_int8": "torch.ao.quantization.quantize_dynamic of the Bi-GRU and the layers",
    "onnx_fp32": "ONNX Runtime in single precision",
    "onnx_static_int8": "ONNX Runtime, embedding and layers in int8 with scales taken beforehand; the Bi-GRU is not",
}


# ── all of them ───────────────────────────────────────────────────────────────────────────────────────────────────


def serving(
    model: BiGRURater,
    tokenizer: SentencePieceTokenizer,
    texts: Sequence[str],
    test_pairs: Sequence[RatingRequest],
    folder: Path,
    settings: Serving,
) -> dict[str, Any]:
    """Measure every variant, and what a process without torch would save; `texts` are for the static scales only."""
    weights = {name: weight.detach().numpy() for name, weight in model.state_dict().items()}
    failed = _attempt("onnx_fp32", partial(write_graphs, folder, weights))
    if failed:
        failed["onnx_static_int8"] = failed["onnx_fp32"]
    else:
        write = partial(write_static, folder, tokenizer, texts, model.config.max_tokens)
        failed = _attempt("onnx_static_int8", write)
    measurements = _Measurements()
    for threads in settings.threads:
        variants = dict[str, Variant]()
        for name, make in _makers(model, folder, threads).items():
            if name not in failed:
                failed |= _attempt(name, partial(_store_variant, variants, name, make))
        failed |= _time_all(variants, tokenizer, test_pairs, threads, settings.runs, measurements)
    return {
        "parameters": model.parameter_count,
        "test_pairs": len(test_pairs),
        "candidates": CANDIDATES,
        "runs": settings.runs,
        "rating_quantiles": [
            round(float(quantile), 3) for quantile in np.quantile(measurements.project, [0, 0.25, 0.5, 0.75, 1])
        ],
        "ways": {
            name: measurements.figures(name, description, failed.get(name)) for name, description in VARIANTS.items()
        },
        "processes": None if "onnx_fp32" in failed else processes(model, tokenizer, test_pairs, folder, settings.runs),
    }


def _makers(model: BiGRURater, folder: Path, threads: int) -> dict[str, Callable[[], Variant]]:
    return {
        "project": lambda: Variant(model, _bytes_of(model)),
        "int8_weights": lambda: round_to_int8(model),
        "torch_bf16": lambda: to_bfloat16(model),
        "torch_dynamic_int8": lambda: dynamic_int8(model),
        "onnx_fp32": lambda: open_graphs(model.config, folder, threads),
        "onnx_static_int8": lambda: open_graphs(model.config, folder / STATIC, threads),
    }


def _store_variant(variants: dict[str, Variant], name: str, make: Callable[[], Variant]) -> None:
    variants[name] = make()


def _attempt(name: str, work: Callable[[], Any]) -> dict[str, str]:
    """Return why some work failed here, by the variant's name; nothing, if it succeeded.

    Only errors of libraries that lack something count: a wrong type or value is a bug, and ends the run.
    """
    try:
        work()
    except (ImportError, AttributeError, RuntimeError, NotImplementedError) as error:
        return {name: " ".join(f"{type(error).__name__}: {error}".split())[:300]}
    return {}


class _Measurements:
    """The measurements so far, by variant; distances are from the project's first ratings."""

    def __init__(self) -> None:
        self._seconds = dict[str, dict[int, list[float]]]()
        self._ratings = dict[str, list[Ratings]]()
        self._alone = dict[str, list[Ratings]]()
        self._weight_bytes = dict[str, int]()

    @property
    def project(self) -> Ratings:
        """The ratings that all others are compared with."""
        return self._ratings["project"][0]

    def add_time(self, name: str, threads: int, seconds: float) -> None:
        """Add the seconds of one run."""
        self._seconds.setdefault(name, {}).setdefault(threads, []).append(seconds)

    def add_ratings(self, name: str, variant: Variant, together: Ratings, alone: Ratings) -> None:
        """Add the ratings of all test pairs at once, and of the first few one by one."""
        self._ratings.setdefault(name, []).append(together)
        self._alone.setdefault(name, []).append(alone)
        self._weight_bytes[name] = variant.weight_bytes

    def figures(self, name: str, description: str, why_not: str | None) -> dict[str, Any]:
        """Return the figures of one variant for the result."""
        if why_not is not None:
            return {"what": description, "skipped": why_not}
        distances = [np.abs(one - self.project) for one in self._ratings[name]]
        largest = max(float(one.max()) for one in distances)
        alone = [
            float(np.abs(ratings - together[: len(ratings)]).max())
            for ratings, together in zip(self._alone[name], self._ratings[name], strict=True)
        ]
        return {
            "what": description,
            "by_threads": {str(threads): self._speed(name, threads) for threads in self._seconds[name]},
            "largest_distance": float(f"{largest:.3g}"),
            "mean_distance": float(f"{max(float(one.mean()) for one in distances):.3g}"),
            "within_1e_5": largest <= SAME,
            "largest_distance_alone": float(f"{max(alone):.3g}"),
            "weight_bytes": self._weight_bytes[name],
        }

    def _speed(self, name: str, threads: int) -> dict[str, float]:
        seconds = statistics.median(self._seconds[name][threads])
        ours = statistics.median(self._seconds["project"][threads])
        return {"seconds": round(seconds, 3), "ratio": round(ours / seconds, 2)}


def _time_all(
    variants: Mapping[str, Variant],
    tokenizer: SentencePieceTokenizer,
    test_pairs: Sequence[RatingRequest],
    threads: int,
    runs: int,
    measurements: _Measurements,
) -> dict[str, str]:
    """Time every variant in turn, for each run, each time with an empty cache; one that fails is left out."""
    failed = dict[str, str]()

    def rate_all(variant: Variant, some: Sequence[RatingRequest]) -> Ratings:
        rater = Rater(cast("BiGRURater", variant.network), tokenizer, threads=threads, cache_bytes=1 << 30)
        return np.array([rating for ratings in rater.rate(some) for rating in ratings])

    def measure(name: str, variant: Variant) -> None:
        alone = np.concatenate([rate_all(variant, [one]) for one in test_pairs[:_ALONE]])  # warms it up as well
        measurements.add_ratings(name, variant, rate_all(variant, test_pairs), alone)

    for name, variant in variants.items():
        failed |= _attempt(name, partial(measure, name, variant))
    for _ in range(runs):
        for name, variant in variants.items():
            if name not in failed:
                began = time.perf_counter()
                rate_all(variant, test_pairs)
                measurements.add_time(name, threads, time.perf_counter() - began)
    return failed


# ── without torch in the process ──────────────────────────────────────────────────────────────────────────────────


def processes(
    model: BiGRURater, tokenizer: SentencePieceTokenizer, test_pairs: Sequence[RatingRequest], folder: Path, runs: int
) -> dict[str, Any]:
    """Time new processes on one thread, with torch and without, from their start to their first ratings."""
    save_rater(folder, model, tokenizer, temperature=1.0, languages=["en"], report={}, details={})
    first_pairs = test_pairs[:_STARTED_WITH]
    triplets = [[one.utterance, one.golds[0], candidate.text] for one in first_pairs for candidate in one.candidates]
    asked_file = folder / "asked.json"
    asked_file.write_text(json.dumps(triplets), encoding="utf-8")
    figures: dict[str, list[dict[str, Any]]] = {"torch": [], "onnx": []}
    for _ in range(runs):
        for variant, so_far in figures.items():
            so_far.append(_process(variant, folder, asked_file))
    names = ("seconds", "resident_mib", "peak_mib")
    middle = {
        variant: {key: statistics.median(one[key] for one in every) for key in names}
        for variant, every in figures.items()
    }
    assert not any(one["torch"] for one in figures["onnx"])
    ratings = [np.array(figures[variant][0]["ratings"]) for variant in ("torch", "onnx")]
    return {
        "test_pairs": len(first_pairs),
        "with_torch": middle["torch"],
        "without_torch": middle["onnx"],
        "saved": {key: round(middle["torch"][key] - middle["onnx"][key], 3) for key in names},
        "largest_distance": float(f"{np.abs(ratings[0] - ratings[1]).max():.3g}"),
    }


def _process(variant: str, folder: Path, triplets_path: Path) -> dict[str, Any]:
    command = [sys.executable, str(_PROCESS), variant, str(folder), str(triplets_path), str(time.monotonic()), "1"]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    finished = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
    if finished.returncode:
        sys.exit(f"{' '.join(command)} ended with {finished.returncode}:\n{finished.stderr}")
    measured: dict[str, Any] = json.loads(finished.stdout)
    return measured
