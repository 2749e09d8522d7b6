"""One network served in several ways: how quick each is, how far its ratings move, how much its weights take.

`project` is what `rater.rate` does, and what the others are compared with. They take its place inside the same Rater,
so that tokenising, batches and order are the same for all, and what differs is the network alone.
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

from core.text import SentencePieceTokenizer, open_sentencepiece
from core.tokenizer_training import TokenizerTraining, train_sentencepiece
from rater.checkpoint import save_rater
from rater.making import PRESETS
from rater.model import POSITIVE, BiGRURater, RaterConfig
from rater.rate import Candidate, Rater, ToRate

CANDIDATES: Final = 17
SAME: Final = 1e-5  # how far a rating may be from itself, whatever else is asked
STATIC: Final = "static"  # folder of the quantised graphs
_CALIBRATED_ON: Final = 4  # batches
_ALONE: Final = 3  # test pairs that are asked by themselves as well
_STARTED_WITH: Final = 10  # test pairs that a new process rates
_PROCESS: Final = Path(__file__).with_name("rater_process.py")

Ratings = NDArray[np.float64]


@dataclass(frozen=True, kw_only=True)
class Serving:
    """What is measured."""

    pairs: int = 200
    runs: int = 3
    threads: tuple[int, ...] = (1, 2)

    @property
    def texts(self) -> int:
        """How many texts it takes: those that are rated, and others that the static scales are taken from."""
        return self.pairs * (CANDIDATES + 2) + _CALIBRATED_ON * READ_AT_ONCE


@dataclass(frozen=True)
class Way:
    """A network that can stand in the project's place, and the bytes that its weights take."""

    network: nn.Module
    weight_bytes: int


# ── texts and networks ────────────────────────────────────────────────────────────────────────────────────────────


def dealt_texts(log: Path) -> list[str]:
    """Different turns of a log of dialogues, dealt out at random."""
    found = dict[str, None]()
    with gzip.open(log, "rt", encoding="utf-8") as lines:
        for line in lines:
            found |= dict.fromkeys(json.loads(line)["turns"])
    texts = list(found)
    np.random.default_rng(1).shuffle(texts)
    return texts


def asked_of(texts: Iterator[str], pairs: int) -> list[ToRate]:
    """Test pairs of one gold and 17 candidates, no text twice."""
    return [
        ToRate(
            utterance=next(texts),
            golds=(next(texts),),
            candidates=tuple(Candidate(text=next(texts)) for _ in range(CANDIDATES)),
        )
        for _ in range(pairs)
    ]


def trained_tokenizer(texts: Sequence[str], folder: Path, preset: str) -> SentencePieceTokenizer:
    """Of as many pieces as the preset has."""
    settings = TokenizerTraining(vocab_size=PRESETS[preset].pieces, at_most=True, sample=100_000)
    train_sentencepiece(iter(texts), folder / "tokenizer.model", settings)
    return open_sentencepiece(folder / "tokenizer.model")


def seeded_network(preset: str, tokenizer: SentencePieceTokenizer, asked: Sequence[ToRate]) -> BiGRURater:
    """A network of the preset's sizes with drawn weights, whose ratings are all over the scale.

    As torch draws them, every text gets about the same answer, and nothing could move it. So the layers are drawn so
    that they keep differences alive (He et al. 2015), and the last one is stretched until the log-odds of the test
    pairs have mean 0 and deviation 2.
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
    likely, _ = Rater(model, tokenizer).probabilities(asked, second=False)
    odds = np.log(likely / (1 - likely))
    with torch.no_grad():
        stretch = 2 / float(odds.std())
        model.last.weight.mul_(stretch)
        model.last.bias.mul_(stretch)
        model.last.bias[POSITIVE] -= stretch * float(odds.mean())
    return model.eval()


# ── ways ──────────────────────────────────────────────────────────────────────────────────────────────────────────


def rounded_to_int8(model: BiGRURater) -> Way:
    """Every row of every matrix in 255 steps of its largest number, made single precision again when it is loaded."""
    rounded, size = copy.deepcopy(model), 0
    with torch.no_grad():
        for weight in rounded.parameters():
            if weight.dim() < 2:
                size += 4 * weight.numel()
                continue
            step = weight.abs().amax(dim=1, keepdim=True).clamp_min(torch.finfo(torch.float32).tiny) / 127
            weight.copy_((weight / step).round() * step)
            size += weight.numel() + 4 * len(weight)
    return Way(rounded, size)


def dynamic_int8(model: BiGRURater) -> Way:
    """Torch's own: weights of layers and of the Bi-GRU in int8, activations scaled by each batch."""
    from torch.ao import quantization  # noqa: PLC0415  deprecated: not every torch has it

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        quantize: Any = quantization.quantize_dynamic
        smaller = quantize(copy.deepcopy(model), {nn.GRU, nn.Linear}, dtype=torch.qint8)
    matrices = [weight for name, weight in model.named_parameters() if weight.dim() > 1 and "embedding" not in name]
    return Way(smaller, _bytes_of(model) - 3 * sum(weight.numel() for weight in matrices))


class Halves(BiGRURater):
    """The network in bfloat16; what is kept of texts, and what comes out, is in single precision."""

    def read(self, tokens: Tensor, lengths: Tensor) -> Tensor:
        """As the network does."""
        return super().read(tokens, lengths).float()

    def judge(self, utterances: Tensor, known: Tensor, others: Tensor) -> Tensor:
        """As the network does."""
        return super().judge(utterances.bfloat16(), known.bfloat16(), others.bfloat16()).float()


def in_halves(model: BiGRURater) -> Way:
    """All weights and all sums in bfloat16."""
    halves = Halves(model.config)
    halves.load_state_dict(model.state_dict())
    return Way(halves.bfloat16(), _bytes_of(model) // 2)


class OnnxNetwork(nn.Module):
    """The graphs where a Rater expects the network."""

    def __init__(self, config: RaterConfig, sessions: Sessions) -> None:
        super().__init__()
        self.config, self._sessions = config, sessions

    def read(self, tokens: Tensor, lengths: Tensor) -> Tensor:
        """As the network does."""
        return torch.from_numpy(self._sessions.read(tokens.numpy(), lengths.numpy()))

    def judge(self, *vectors: Tensor) -> Tensor:
        """As the network does."""
        return torch.from_numpy(self._sessions.judged(*(one.numpy() for one in vectors)))


def of_graphs(config: RaterConfig, folder: Path, threads: int) -> Way:
    """Whatever graphs lie there; their files are their weights."""
    size = sum((folder / name).stat().st_size for name in (READER, JUDGE))
    return Way(OnnxNetwork(config, Sessions.open(folder, threads=threads)), size)


def write_static(folder: Path, tokenizer: SentencePieceTokenizer, texts: Sequence[str], max_tokens: int) -> None:
    """The graphs again in int8, scales taken once from these texts; the GRU has no such form and stays as it is."""
    from onnxruntime.quantization import (  # noqa: PLC0415  needs onnx
        CalibrationDataReader,
        QuantFormat,
        QuantType,
        quantize_static,
    )

    class Given(CalibrationDataReader):  # type: ignore[misc]
        def __init__(self, given: Sequence[Mapping[str, Any]]) -> None:
            self._given = iter(given)

        def get_next(self) -> Mapping[str, Any] | None:
            return next(self._given, None)

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
            Given(inputs[name]),
            quant_format=QuantFormat.QDQ,
            op_types_to_quantize=[kind],
            per_channel=True,
            activation_type=QuantType.QUInt8,
            weight_type=QuantType.QInt8,
        )


def _bytes_of(model: nn.Module) -> int:
    return sum(4 * weight.numel() for weight in model.parameters())


WAYS: Final = {
    "project": "torch in single precision, texts packed by length: what rater.rate does",
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
    asked: Sequence[ToRate],
    folder: Path,
    settings: Serving,
) -> dict[str, Any]:
    """Measure every way, and what a process without torch would save; `texts` are for the static scales alone."""
    weights = {name: weight.detach().numpy() for name, weight in model.state_dict().items()}
    failed = _attempted("onnx_fp32", partial(write_graphs, folder, weights))
    if failed:
        failed["onnx_static_int8"] = failed["onnx_fp32"]
    else:
        write = partial(write_static, folder, tokenizer, texts, model.config.max_tokens)
        failed = _attempted("onnx_static_int8", write)
    found = _Found()
    for threads in settings.threads:
        ways = dict[str, Way]()
        for name, make in _makers(model, folder, threads).items():
            if name not in failed:
                failed |= _attempted(name, partial(_made, ways, name, make))
        failed |= _timed(ways, tokenizer, asked, threads, settings.runs, found)
    return {
        "parameters": model.parameter_count,
        "test_pairs": len(asked),
        "candidates": CANDIDATES,
        "runs": settings.runs,
        "rating_quantiles": [round(float(one), 3) for one in np.quantile(found.project, [0, 0.25, 0.5, 0.75, 1])],
        "ways": {name: found.figures(name, what, failed.get(name)) for name, what in WAYS.items()},
        "processes": None if "onnx_fp32" in failed else processes(model, tokenizer, asked, folder, settings.runs),
    }


def _makers(model: BiGRURater, folder: Path, threads: int) -> dict[str, Callable[[], Way]]:
    return {
        "project": lambda: Way(model, _bytes_of(model)),
        "int8_weights": lambda: rounded_to_int8(model),
        "torch_bf16": lambda: in_halves(model),
        "torch_dynamic_int8": lambda: dynamic_int8(model),
        "onnx_fp32": lambda: of_graphs(model.config, folder, threads),
        "onnx_static_int8": lambda: of_graphs(model.config, folder / STATIC, threads),
    }


def _made(ways: dict[str, Way], name: str, make: Callable[[], Way]) -> None:
    ways[name] = make()


def _attempted(name: str, work: Callable[[], Any]) -> dict[str, str]:
    """Why it could not be done here, by the way's name; nothing, if it could.

    Only what libraries raise where they lack something: a wrong type or value is a mistake of ours, and ends the run.
    """
    try:
        work()
    except (ImportError, AttributeError, RuntimeError, NotImplementedError) as error:
        return {name: " ".join(f"{type(error).__name__}: {error}".split())[:300]}
    return {}


class _Found:
    """What was measured so far, by way; distances are from the project's first ratings."""

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
        """One run."""
        self._seconds.setdefault(name, {}).setdefault(threads, []).append(seconds)

    def add_ratings(self, name: str, way: Way, together: Ratings, alone: Ratings) -> None:
        """Of all test pairs at once, and of the first few by themselves."""
        self._ratings.setdefault(name, []).append(together)
        self._alone.setdefault(name, []).append(alone)
        self._weight_bytes[name] = way.weight_bytes

    def figures(self, name: str, what: str, why_not: str | None) -> dict[str, Any]:
        """One way as it goes into the result."""
        if why_not is not None:
            return {"what": what, "skipped": why_not}
        distances = [np.abs(one - self.project) for one in self._ratings[name]]
        largest = max(float(one.max()) for one in distances)
        alone = [
            float(np.abs(one - together[: len(one)]).max())
            for one, together in zip(self._alone[name], self._ratings[name], strict=True)
        ]
        return {
            "what": what,
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


def _timed(
    ways: Mapping[str, Way],
    tokenizer: SentencePieceTokenizer,
    asked: Sequence[ToRate],
    threads: int,
    runs: int,
    found: _Found,
) -> dict[str, str]:
    """Every way in turn, as often as there are runs, each time with an empty cache; what fails is left out."""
    failed = dict[str, str]()

    def rated(way: Way, some: Sequence[ToRate]) -> Ratings:
        rater = Rater(cast("BiGRURater", way.network), tokenizer, threads=threads, cache_bytes=1 << 30)
        return np.array([rating for ratings in rater.rate(some) for rating in ratings])

    def looked_at(name: str, way: Way) -> None:
        alone = np.concatenate([rated(way, [one]) for one in asked[:_ALONE]])  # warms it up as well
        found.add_ratings(name, way, rated(way, asked), alone)

    for name, way in ways.items():
        failed |= _attempted(name, partial(looked_at, name, way))
    for _ in range(runs):
        for name, way in ways.items():
            if name not in failed:
                began = time.perf_counter()
                rated(way, asked)
                found.add_time(name, threads, time.perf_counter() - began)
    return failed


# ── without torch in the process ──────────────────────────────────────────────────────────────────────────────────


def processes(
    model: BiGRURater, tokenizer: SentencePieceTokenizer, asked: Sequence[ToRate], folder: Path, runs: int
) -> dict[str, Any]:
    """New processes on one thread, with torch and without, from their start to their first ratings."""
    save_rater(folder, model, tokenizer, temperature=1.0, languages=["en"], report={}, details={})
    some = asked[:_STARTED_WITH]
    triplets = [[one.utterance, one.golds[0], candidate.text] for one in some for candidate in one.candidates]
    asked_file = folder / "asked.json"
    asked_file.write_text(json.dumps(triplets), encoding="utf-8")
    found: dict[str, list[dict[str, Any]]] = {"torch": [], "onnx": []}
    for _ in range(runs):
        for way, so_far in found.items():
            so_far.append(_process(way, folder, asked_file))
    kept = ("seconds", "resident_mib", "peak_mib")
    middle = {way: {key: statistics.median(one[key] for one in every) for key in kept} for way, every in found.items()}
    assert not any(one["torch"] for one in found["onnx"])
    ratings = [np.array(found[way][0]["ratings"]) for way in ("torch", "onnx")]
    return {
        "test_pairs": len(some),
        "with_torch": middle["torch"],
        "without_torch": middle["onnx"],
        "saved": {key: round(middle["torch"][key] - middle["onnx"][key], 3) for key in kept},
        "largest_distance": float(f"{np.abs(ratings[0] - ratings[1]).max():.3g}"),
    }


def _process(way: str, folder: Path, asked: Path) -> dict[str, Any]:
    command = [sys.executable, str(_PROCESS), way, str(folder), str(asked), str(time.monotonic()), "1"]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    ended = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
    if ended.returncode:
        sys.exit(f"{' '.join(command)} ended with {ended.returncode}:\n{ended.stderr}")
    measured: dict[str, Any] = json.loads(ended.stdout)
    return measured
