"""A trained network on disk: its weights, its tokenizer if it reads pieces, a report, and the manifest last."""

from __future__ import annotations

import math
import platform
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Generic, NotRequired, TypedDict, TypeVar, Unpack

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from refaug.core.artefacts import manifests
from refaug.core.errors import Corrupt, Usage
from refaug.core.files import make_folder, read_json, write_aside, write_json
from refaug.core.text.sentencepiece_tokenizer import SentencePieceTokenizer, open_sentencepiece
from refaug.rater.language_coverage import Coverage

# ── Tensors on disk: written whole or not at all, and never pickled ───────────────────────────────────────────────────


def write_tensors(path: Path, tensors: Mapping[str, Tensor]) -> None:
    """Write tensors to a file with our own code, since the library's error for a full disk is not an OSError."""
    content = save({name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()})
    with write_aside(path) as file:
        file.write(content)


def read_tensors(path: Path, device: str = "cpu", *, remedy: str) -> dict[str, Tensor]:
    """Read tensors from a file; raise Corrupt if it cannot be read."""
    try:
        tensors: dict[str, Tensor] = load_file(path, device=device)
    except (SafetensorError, OSError) as error:
        reason = " ".join(str(error).split())
        raise Corrupt(f"{path} cannot be read: {reason}", remedy=remedy) from error
    return tensors


# ── A trained network on disk: its weights, its tokenizer if it reads pieces, a report, and the manifest last ─────────

FORMAT_VERSION: Final = 1
WEIGHTS: Final = "weights.safetensors"
TOKENIZER: Final = "tokenizer.model"
REPORT: Final = "report.json"
_REMEDY: Final = "restore it from a backup, or train it again"


AnyConfig = TypeVar("AnyConfig")
AnyNetwork = TypeVar("AnyNetwork", bound=nn.Module)


@dataclass(frozen=True, kw_only=True)
class StoredNetwork(Generic[AnyConfig]):
    """The settings in the manifest of a network of any kind."""

    id: str
    tokenizer: str | None  # None: it reads the vectors of an encoder
    languages: tuple[str, ...]
    coverage: Coverage  # of the texts it was trained on
    details: Mapping[str, Any]
    config: AnyConfig
    settings: tuple[str, ...]  # that the id depends on beside weights and tokenizer
    temperature: float = 1.0


class SavedFacts(TypedDict):
    """What is written beside the weights of a network of any kind."""

    languages: Sequence[str]
    coverage: NotRequired[Coverage | None]
    report: Mapping[str, Any]
    details: Mapping[str, Any]
    beside: NotRequired[Sequence[str]]  # files that the folder holds already


def write_network(
    folder: Path,
    kind: str,
    model: nn.Module,
    tokenizer: SentencePieceTokenizer | None,
    *,
    settings: Mapping[str, Any],
    **facts: Unpack[SavedFacts],
) -> str:
    """Write a network's folder; return its id, a hash of weights, tokenizer and settings."""
    make_folder(folder)
    write_tensors(folder / WEIGHTS, model.state_dict())
    if tokenizer is not None:
        with write_aside(folder / TOKENIZER) as file:
            file.write(tokenizer.path.read_bytes())
    write_json(folder / REPORT, dict(facts["report"]))
    return manifests.write_manifest(
        folder,
        kind,
        FORMAT_VERSION,
        [WEIGHTS, *([] if tokenizer is None else [TOKENIZER]), REPORT, *facts.get("beside", ())],
        settings,
        content=(WEIGHTS, TOKENIZER),
        before={
            "tokenizer": None if tokenizer is None else tokenizer.sha256,
            "languages": list(facts["languages"]),
            "coverage": (facts.get("coverage") or Coverage()).as_json(),
        },
        after={
            "software": {"torch": torch.__version__, "python": platform.python_version()},
            "details": dict(facts["details"]),
        },
    )


def read_network_manifest(
    folder: Path,
    kind: str,
    config_type: Callable[..., AnyConfig],
    settings: tuple[str, ...] = ("config",),
    *,
    network: str | None = None,
) -> StoredNetwork[AnyConfig]:
    """Read a manifest with these settings; raise Corrupt if it is of another kind, or of another network."""
    path = folder / manifests.MANIFEST
    manifest: Mapping[str, Any] = read_json(path)
    manifests.require_format(path, manifest, kind, FORMAT_VERSION)
    if network is not None and manifest.get("network") != network:
        raise Corrupt(f"{path} lacks what a {kind} needs: a network {manifest.get('network')!r}", remedy=_REMEDY)
    try:
        return StoredNetwork(
            id=str(manifest["id"]),
            tokenizer=None if manifest["tokenizer"] is None else str(manifest["tokenizer"]),
            languages=tuple(manifest["languages"]),
            coverage=Coverage.read(manifest["coverage"]),
            details=dict(manifest["details"]),
            config=config_type(**manifest["config"]),
            settings=settings,
            temperature=_temperature(manifest["temperature"]) if "temperature" in settings else 1.0,
        )
    except (KeyError, TypeError, ValueError, Usage) as error:
        raise Corrupt(f"{path} lacks what a {kind} needs: {error}", remedy=_REMEDY) from error


def _temperature(number: object) -> float:
    """Return a temperature of a manifest; raise ValueError for what cannot be one."""
    if not isinstance(number, int | float) or not 0 < number < math.inf:
        raise ValueError(f"a temperature of {number}")
    return float(number)


class _WithoutInitialWeights(TorchFunctionMode):
    """Leaves weights as they are: to draw some on the device `meta`, torch would import its compiler, for seconds."""

    def __torch_function__(
        self, func: Callable[..., Any], types: Any, args: Sequence[Any] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        """Return the tensor where a function of torch.nn.init is called, else call it."""
        del types
        named = dict(kwargs or {})
        if getattr(func, "__module__", None) == "torch.nn.init":
            return named["tensor"] if "tensor" in named else args[0]
        return func(*args, **named)


def open_network(
    folder: Path, kind: str, stored: StoredNetwork[Any], build: Callable[[], AnyNetwork]
) -> tuple[AnyNetwork, SentencePieceTokenizer]:
    """Load weights and tokenizer, and check that the manifest's id fits them and its settings."""
    files = _verified(folder, (WEIGHTS, TOKENIZER))
    tokenizer = open_sentencepiece(folder / TOKENIZER)
    if tokenizer.sha256 != stored.tokenizer:
        raise Corrupt(
            f"{folder / TOKENIZER} is {tokenizer.sha256[:12]}; the {kind} was trained with "
            f"{str(stored.tokenizer)[:12]}",
            remedy=_REMEDY,
        )
    return _load(folder, kind, stored, build, files), tokenizer


def open_weights(folder: Path, kind: str, stored: StoredNetwork[Any], build: Callable[[], AnyNetwork]) -> AnyNetwork:
    """Load the weights of a network without a tokenizer, and check that the manifest's id fits them."""
    return _load(folder, kind, stored, build, _verified(folder, (WEIGHTS,)))


def _verified(folder: Path, names: Sequence[str]) -> dict[str, Any]:
    """Return the entries of the files that decide a network's answers.

    Signatures name a network by its id, so these files are checked by hash, the rest by size.
    """
    manifest: Mapping[str, Any] = read_json(folder / manifests.MANIFEST)
    manifests.require_files(folder, manifest)
    files = {name: facts for name, facts in manifest["files"].items() if name in names}
    if len(files) < len(names):
        raise Corrupt(f"{folder / manifests.MANIFEST} does not name {' and '.join(names)}", remedy=_REMEDY)
    manifests.verify_files(folder, {"files": files})
    return files


def _load(
    folder: Path, kind: str, stored: StoredNetwork[Any], build: Callable[[], AnyNetwork], files: Mapping[str, Any]
) -> AnyNetwork:
    manifest: Mapping[str, Any] = read_json(folder / manifests.MANIFEST)
    tensors = read_tensors(folder / WEIGHTS, remedy=_REMEDY)
    try:
        with torch.device("meta"), _WithoutInitialWeights():  # allocates nothing: the weights are replaced anyway
            model = build()
        model.load_state_dict(tensors, assign=True)
    except RuntimeError as error:
        reason = " ".join(str(error).split())
        raise Corrupt(f"{folder / WEIGHTS} does not hold this {kind}'s weights: {reason}", remedy=_REMEDY) from error
    name = manifests.content_id({"files": files}, {setting: manifest[setting] for setting in stored.settings})
    if name != stored.id:
        message = (
            f"{folder / manifests.MANIFEST} was altered: it says {stored.id[:12]}, and what is in it makes {name[:12]}"
        )
        raise Corrupt(message, remedy=_REMEDY)
    return model
