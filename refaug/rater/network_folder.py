"""A trained network on disk: its weights, its tokenizer if it reads pieces, a report, and the manifest last."""

from __future__ import annotations

import math
import platform
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Generic, NotRequired, TypedDict, TypeVar, Unpack

from refaug.core.artefacts import manifests
from refaug.core.artefacts.versions import Versions
from refaug.core.errors import Corrupt, Usage
from refaug.core.files import make_folder, read_json, write_aside, write_json
from refaug.core.installation import load
from refaug.core.text.sentencepiece_tokenizer import SentencePieceTokenizer, open_sentencepiece
from refaug.core.vectors.static_model import read_arrays
from refaug.rater.array_layers import Arrays
from refaug.rater.language_coverage import Coverage
from refaug.rater.rating import EncoderOpener, OpenedFacts

if TYPE_CHECKING:
    from torch import nn


@dataclass(frozen=True, kw_only=True)
class TrainingPlaces:
    """The folders that training a network needs: the logs, the versions of its kind, and one for unfinished work."""

    logs: Path
    versions: Versions
    cache: Path
    open_encoder: EncoderOpener | None = None  # for networks that read an encoder's vectors


FORMAT_VERSION: Final = 1
WEIGHTS: Final = "weights.safetensors"
TOKENIZER: Final = "tokenizer.model"
REPORT: Final = "report.json"
REMEDY: Final = "restore it from a backup, or train it again"


AnyConfig = TypeVar("AnyConfig")
AnyNetwork = TypeVar("AnyNetwork")


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
    negatives: str = ""  # how those of its training were drawn, where the details say so

    def opened(self, spec: str, threads: int) -> OpenedFacts:
        """Return what opening the network needs beside its weights."""
        return {
            "temperature": self.temperature,
            "languages": self.languages,
            "usual": self.coverage,
            "spec": spec,
            "threads": threads,
            "negatives": self.negatives,
        }


class SavedFacts(TypedDict):
    """What is written beside the weights of a network of any kind."""

    languages: Sequence[str]
    coverage: NotRequired[Coverage | None]
    report: Mapping[str, Any]
    details: Mapping[str, Any]
    temperature: NotRequired[float]  # of a rater
    beside: NotRequired[Sequence[str]]  # files that the folder holds already


@dataclass(frozen=True, kw_only=True)
class NetworkFiles(Generic[AnyConfig, AnyNetwork]):
    """How the networks of a kind lie in folders; ids depend on network, config and temperature, where there are any.

    Where torch is not installed, numpy computes the same equations, if there is a network over arrays.
    """

    kind: str
    config: Callable[..., AnyConfig]
    module: str  # of torch, as module:name; imported when one is opened
    arrays: Callable[[AnyConfig, Arrays], AnyNetwork] | None = None
    network: str | None = None  # among the networks of the kind; None: the manifest names none
    has_temperature: bool = False
    written: Callable[[Any], Mapping[str, object]] = asdict  # a config, as it stands in a manifest

    def save(
        self,
        folder: Path,
        model: nn.Module,
        tokenizer: SentencePieceTokenizer | None,
        /,
        **facts: Unpack[SavedFacts],
    ) -> str:
        """Write a network's folder; return its id, a hash of weights, tokenizer and settings."""
        from refaug.rater import torch_networks  # noqa: PLC0415  torch

        make_folder(folder)
        torch_networks.write_tensors(folder / WEIGHTS, model.state_dict())
        if tokenizer is not None:
            with write_aside(folder / TOKENIZER) as file:
                file.write(tokenizer.path.read_bytes())
        write_json(folder / REPORT, dict(facts["report"]))
        return manifests.write_manifest(
            folder,
            self.kind,
            FORMAT_VERSION,
            [WEIGHTS, *([] if tokenizer is None else [TOKENIZER]), REPORT, *facts.get("beside", ())],
            {
                **({} if self.network is None else {"network": self.network}),
                "config": self.written(model.config),
                **({"temperature": facts["temperature"]} if self.has_temperature else {}),
            },
            content=(WEIGHTS, TOKENIZER),
            before={
                "tokenizer": None if tokenizer is None else tokenizer.sha256,
                "languages": list(facts["languages"]),
                "coverage": (facts.get("coverage") or Coverage()).as_json(),
            },
            after={
                "software": {"torch": torch_networks.VERSION, "python": platform.python_version()},
                "details": dict(facts["details"]),
            },
        )

    def read(self, folder: Path) -> StoredNetwork[AnyConfig]:
        """Read a manifest; raise Corrupt if it is of another kind, or of another network."""
        path = folder / manifests.MANIFEST
        manifest: Mapping[str, Any] = read_json(path)
        manifests.require_format(path, manifest, self.kind, FORMAT_VERSION)
        found = manifest.get("network")
        if self.network is not None and found != self.network:
            raise Corrupt(f"{path} lacks what a {self.kind} needs: a network {found!r}", remedy=REMEDY)
        names = {"network": self.network is not None, "config": True, "temperature": self.has_temperature}
        try:
            return StoredNetwork(
                id=str(manifest["id"]),
                tokenizer=None if manifest["tokenizer"] is None else str(manifest["tokenizer"]),
                languages=tuple(manifest["languages"]),
                coverage=Coverage.read(manifest["coverage"]),
                details=dict(manifest["details"]),
                config=self.config(**manifest["config"]),
                settings=tuple(name for name, is_there in names.items() if is_there),
                temperature=_temperature(manifest["temperature"]) if self.has_temperature else 1.0,
                negatives=_negatives(manifest["details"]),
            )
        except (KeyError, TypeError, ValueError, Usage) as error:
            raise Corrupt(f"{path} lacks what a {self.kind} needs: {error}", remedy=REMEDY) from error

    def open(self, folder: Path) -> tuple[AnyNetwork, SentencePieceTokenizer, StoredNetwork[AnyConfig]]:
        """Load weights and tokenizer; refuse files that were altered after saving."""
        stored, files = self.read(folder), _verified(folder, (WEIGHTS, TOKENIZER))
        tokenizer = open_sentencepiece(folder / TOKENIZER)
        if tokenizer.sha256 != stored.tokenizer:
            raise Corrupt(
                f"{folder / TOKENIZER} is {tokenizer.sha256[:12]}; the {self.kind} was trained with "
                f"{str(stored.tokenizer)[:12]}",
                remedy=REMEDY,
            )
        return self._load(folder, stored, files), tokenizer, stored

    def open_weights(self, folder: Path) -> tuple[AnyNetwork, StoredNetwork[AnyConfig]]:
        """Load a network without a tokenizer; refuse files that were altered after saving."""
        stored = self.read(folder)
        return self._load(folder, stored, _verified(folder, (WEIGHTS,))), stored

    def _load(self, folder: Path, stored: StoredNetwork[AnyConfig], files: Mapping[str, Any]) -> AnyNetwork:
        """Load the weights, and check that the manifest's id fits the files and the settings."""
        manifest: Mapping[str, Any] = read_json(folder / manifests.MANIFEST)
        try:
            model = self._network(folder / WEIGHTS, stored.config)
        except (KeyError, RuntimeError, ValueError) as error:
            reason = " ".join(str(error).split())
            raise Corrupt(
                f"{folder / WEIGHTS} does not hold this {self.kind}'s weights: {reason}", remedy=REMEDY
            ) from error
        name = manifests.content_id({"files": files}, {setting: manifest[setting] for setting in stored.settings})
        if name != stored.id:
            raise Corrupt(
                f"{folder / manifests.MANIFEST} was altered: it says {stored.id[:12]}, and what is in it makes "
                f"{name[:12]}",
                remedy=REMEDY,
            )
        return model

    def _network(self, weights: Path, config: AnyConfig) -> AnyNetwork:
        if self.arrays is not None and find_spec("torch") is None:
            return self.arrays(config, read_arrays(weights))
        from refaug.rater.torch_networks import with_weights  # noqa: PLC0415  torch

        network: AnyNetwork = with_weights(lambda: load(self.kind, self.module)(config), weights, remedy=REMEDY)
        return network


def _temperature(number: object) -> float:
    """Return a temperature of a manifest; raise ValueError for what cannot be one."""
    if not isinstance(number, int | float) or not 0 < number < math.inf:
        raise ValueError(f"a temperature of {number}")
    return float(number)


def _negatives(details: Mapping[str, Any]) -> str:
    """Return how negatives were drawn; raise TypeError for examples that are no settings."""
    examples = details.get("examples", {})
    if not isinstance(examples, dict):
        raise TypeError(f"examples {examples!r}")
    return str(examples.get("negatives", ""))


def _verified(folder: Path, names: Sequence[str]) -> dict[str, Any]:
    """Return the entries of the files that decide a network's answers.

    Signatures name a network by its id, so these files are checked by hash, the rest by size.
    """
    manifest: Mapping[str, Any] = read_json(folder / manifests.MANIFEST)
    manifests.require_files(folder, manifest)
    files = {name: facts for name, facts in manifest["files"].items() if name in names}
    if len(files) < len(names):
        raise Corrupt(f"{folder / manifests.MANIFEST} does not name {' and '.join(names)}", remedy=REMEDY)
    manifests.verify_files(folder, {"files": files})
    return files
