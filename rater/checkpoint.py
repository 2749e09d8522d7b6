"""A rater as a folder: weights, the tokenizer they were trained with, a report, and the manifest, written last."""

from __future__ import annotations

import math
import platform
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

import torch

from core.artefacts import MANIFEST, content_id, describe_files, require_files, require_format, verify_files
from core.errors import Corrupt, Usage
from core.files import make_folder, read_json, write_aside, write_json
from core.text import SentencePieceTokenizer, open_sentencepiece
from core.version import VERSION
from rater.coverage import Coverage
from rater.model import BiGRURater, RaterConfig
from rater.rate import CACHE_BYTES, Rater
from rater.tensors import read_tensors, write_tensors

KIND: Final = "rater"
FORMAT_VERSION: Final = 1
WEIGHTS: Final = "weights.safetensors"
TOKENIZER: Final = "tokenizer.model"
REPORT: Final = "report.json"
_REMEDY: Final = "restore it from a backup, or train it again"


@dataclass(frozen=True, kw_only=True)
class StoredRater:
    """What a manifest says of a rater."""

    id: str
    config: RaterConfig
    tokenizer: str
    temperature: float
    languages: tuple[str, ...]
    coverage: Coverage  # of the texts it was trained on
    details: Mapping[str, Any]


def save_rater(
    folder: Path,
    model: BiGRURater,
    tokenizer: SentencePieceTokenizer,
    *,
    temperature: float,
    languages: Sequence[str],
    coverage: Coverage | None = None,
    report: Mapping[str, Any],
    details: Mapping[str, Any],
    beside: Sequence[str] = (),
) -> str:
    """Write all of it; the answer is the rater's id. `beside` are files that are in the folder already."""
    make_folder(folder)
    write_tensors(folder / WEIGHTS, model.state_dict())
    with write_aside(folder / TOKENIZER) as file:
        file.write(tokenizer.path.read_bytes())
    write_json(folder / REPORT, dict(report))
    files = describe_files(folder, [WEIGHTS, TOKENIZER, REPORT, *beside])
    settings = {"config": asdict(model.config), "temperature": temperature}
    name = content_id({"files": {one: files[one] for one in (WEIGHTS, TOKENIZER)}}, settings)
    write_json(
        folder / MANIFEST,
        {
            "format_version": FORMAT_VERSION,
            "kind": KIND,
            "id": name,
            **settings,
            "tokenizer": tokenizer.sha256,
            "languages": list(languages),
            "coverage": (coverage or Coverage()).written(),
            "files": files,
            "refaug": VERSION,
            "software": {"torch": torch.__version__, "python": platform.python_version()},
            "details": dict(details),
        },
    )
    return name


def read_manifest(folder: Path) -> StoredRater:
    """What the folder says it holds; Corrupt, if it is no rater's."""
    path = folder / MANIFEST
    manifest: dict[str, Any] = read_json(path)
    require_format(path, manifest, KIND, FORMAT_VERSION)
    try:
        return StoredRater(
            id=str(manifest["id"]),
            config=RaterConfig(**manifest["config"]),
            tokenizer=str(manifest["tokenizer"]),
            temperature=_temperature(manifest["temperature"]),
            languages=tuple(manifest["languages"]),
            coverage=Coverage.read(manifest.get("coverage")),
            details=dict(manifest["details"]),
        )
    except (KeyError, TypeError, ValueError, Usage) as error:
        raise Corrupt(f"{path} lacks what a rater needs: {error}", remedy=_REMEDY) from error


def _temperature(value: object) -> float:
    if not isinstance(value, int | float) or not 0 < value < math.inf:
        raise ValueError(f"a temperature of {value}")
    return float(value)


def open_rater(folder: Path, *, spec: str = "", threads: int = 1, cache_bytes: int = CACHE_BYTES) -> Rater:
    """Load a rater: its weights and tokenizer those that the manifest names, its id what these and its settings make.

    Signatures name a rater by its id, so what decides over a rating is looked at byte by byte, the rest by size.
    """
    manifest: dict[str, Any] = read_json(folder / MANIFEST)
    stored = read_manifest(folder)
    require_files(folder, manifest)
    files = {name: facts for name, facts in manifest["files"].items() if name in (WEIGHTS, TOKENIZER)}
    if len(files) < 2:
        raise Corrupt(f"{folder / MANIFEST} does not name {WEIGHTS} and {TOKENIZER}", remedy=_REMEDY)
    verify_files(folder, {"files": files})
    tokenizer = open_sentencepiece(folder / TOKENIZER)
    if tokenizer.sha256 != stored.tokenizer:
        raise Corrupt(
            f"{folder / TOKENIZER} is {tokenizer.sha256[:12]}; the rater was trained with {stored.tokenizer[:12]}",
            remedy=_REMEDY,
        )
    tensors = read_tensors(folder / WEIGHTS, remedy=_REMEDY)
    try:
        with torch.device("meta"):  # nothing is drawn, only to be replaced
            model = BiGRURater(stored.config)
        model.load_state_dict(tensors, assign=True)
    except RuntimeError as error:
        reason = " ".join(str(error).split())
        raise Corrupt(f"{folder / WEIGHTS} does not hold this rater's weights: {reason}", remedy=_REMEDY) from error
    name = content_id({"files": files}, {"config": manifest["config"], "temperature": manifest["temperature"]})
    if name != stored.id:
        message = f"{folder / MANIFEST} was altered: it says {stored.id[:12]}, and what is in it makes {name[:12]}"
        raise Corrupt(message, remedy=_REMEDY)
    return Rater(
        model,
        tokenizer,
        temperature=stored.temperature,
        languages=stored.languages,
        usual=stored.coverage,
        spec=spec,
        threads=threads,
        cache_bytes=cache_bytes,
    )
