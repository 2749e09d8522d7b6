"""The files of an encoder: their paths, the settings in them, and their hashes.

Besides the model and its tokenizer there may be separate files with weights, and the small JSON files in which Hugging
Face and sentence-transformers store how long a text may be, how it is padded and how a sentence gets one vector.
"""

from __future__ import annotations

import hashlib
import mmap
import os
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Literal, Self

import orjson

from refaug.core.errors import Corrupt, NotFound, Usage
from refaug.core.files import sha256_of

Pooling = Literal["output", "mean", "cls"]
STATIC_MODEL: Final = "model.safetensors"  # vectors of tokens, where there is no graph
CALIBRATION: Final = "calibration.json"  # beside the model: what refaug-1 needs to know of an encoder

# The way out for a folder of sentence-transformers or Transformers: Optimum writes model and tokenizer.
EXPORT: Final = "export it to ONNX where its libraries are: optimum-cli export onnx --model FOLDER EXPORTED"

# Paths


@dataclass(frozen=True)
class EncoderFiles:
    """The paths of an encoder's files; `root` is the folder above `onnx/`, which holds Hugging Face's settings."""

    model: Path
    tokenizer: Path
    root: Path

    @classmethod
    def find(cls, path: Path) -> Self:
        """Find the files of the encoder in a folder, or of a model named directly."""
        named_path = Path(os.path.abspath(path))  # noqa: PTH100  keeps the name of a link
        model = _model_file(named_path)
        root = model.parent.parent if model.parent.name == "onnx" else model.parent
        for folder in (model.parent, root):
            if (folder / "tokenizer.json").is_file():
                return cls(model, folder / "tokenizer.json", root)
        raise NotFound(
            f"the encoder {model} has no tokenizer.json beside it",
            remedy="save the tokenizer as tokenizer.json (the format of the tokenizers library) in the model's folder",
        )

    @property
    def stem(self) -> str:
        """The name before the hash: the folder's for a model called just `model`, else the file's."""
        stem = self.root.name if self.model.stem.startswith("model") else self.model.stem
        return re.sub(r"[^A-Za-z0-9._-]", "-", stem) or "encoder"

    def settings(self, name: str) -> Any:
        """Read one of the small JSON files; None if it is missing."""
        for path in (self.tokenizer.parent / name, self.root / name):
            if path.is_file():
                try:
                    return orjson.loads(read_whole(path))
                except orjson.JSONDecodeError as error:
                    raise Corrupt(f"{path} is not JSON: {error}", remedy="copy the encoder's files again") from error
        return None

    def settings_object(self, name: str) -> Mapping[str, Any]:
        """Read one of the small JSON files that hold an object; empty if it is missing."""
        settings = self.settings(name)
        if settings is not None and not isinstance(settings, dict):
            raise Corrupt(f"{name} of {self.root} does not hold a JSON object", remedy="copy the encoder's files again")
        return settings or {}


def stored_calibration(folder: Path) -> bytes:
    """Return the numbers of refaug-1 for the encoder in a folder; empty where there are none."""
    path = folder / CALIBRATION
    return read_whole(path) if path.is_file() else b""


_MOST_NAMED = 5


def _model_file(named_path: Path) -> Path:
    if named_path.is_file():
        return named_path
    for candidate in (named_path / "model.onnx", named_path / "onnx" / "model.onnx", named_path / STATIC_MODEL):
        if candidate.is_file():
            return candidate
    if not named_path.is_dir():
        raise NotFound(
            f"there is no encoder at {str(named_path)!r}",
            remedy="give a folder with model.onnx (or onnx/model.onnx) and tokenizer.json, the .onnx file itself, or a "
            "folder with tokenizer.json and model.safetensors that has a vector for each token",
        )
    # Only in the folder and those directly below: a path named by mistake may be a whole disk.
    candidates = sorted(
        str(path.relative_to(named_path)) for depth in ("*.onnx", "*/*.onnx") for path in named_path.glob(depth)
    )
    named = ", ".join(candidates[:_MOST_NAMED]) + (
        f" … ({len(candidates)} in all)" if len(candidates) > _MOST_NAMED else ""
    )
    raise NotFound(
        f"{named_path} has neither model.onnx nor onnx/model.onnx",
        remedy=f"give the path of the file itself: {named}" if candidates else EXPORT,
    )


def read_whole(path: Path) -> bytes:
    """Return the bytes of a small file; NotFound gives the reason if it cannot be read."""
    try:
        return path.read_bytes()
    except OSError as error:
        raise _unreadable(path, error) from error


def _unreadable(path: Path, error: OSError) -> NotFound:
    return NotFound(f"cannot read {path}: {error.strerror or error}", remedy="an encoder needs all of its files")


# Hashes

# The name of the file that holds a weight (onnx.proto: StringStringEntryProto in TensorProto.external_data), as it is
# stored: field 1 "location", field 2 with its length as a varint.
_LOCATION = re.compile(rb"\x0a\x08location\x12([\x80-\xff]{0,4}[\x00-\x7f])")
_GIT_LFS_POINTER = b"version https://git-lfs"


def weights_sha256(model: Path) -> str:
    """Return the hash of the model with all files that hold its weights (model.onnx_data …)."""
    if model.suffix == ".safetensors":
        return _file_hash(model)
    return hash_strings(_file_hash(file) for file in (model, *_external_data(model)))


def hash_strings(parts: Iterable[str]) -> str:
    """Return one hash of several strings."""
    return hashlib.sha256("|".join(parts).encode()).hexdigest()


def refuse_pointer(path: Path, start: bytes) -> None:
    """Refuse the pointer that Git LFS leaves in place of a large file."""
    if start.startswith(_GIT_LFS_POINTER):
        raise Corrupt(f"{path} is only a Git LFS pointer to the file", remedy="run `git lfs pull` in its folder")


def _file_hash(path: Path) -> str:
    try:
        return sha256_of(path)
    except OSError as error:
        raise _unreadable(path, error) from error


def _external_data(model: Path) -> list[Path]:
    """Find the files that hold weights of the model, which are as much part of it as the model file."""
    try:
        with model.open("rb") as file:
            if os.fstat(file.fileno()).st_size == 0:
                raise Corrupt(f"{model} is empty", remedy="export the model again, or copy it again")
            with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
                refuse_pointer(model, content[: len(_GIT_LFS_POINTER)])
                locations = {_location(content, match) for match in _LOCATION.finditer(content)}
    except OSError as error:
        raise _unreadable(model, error) from error
    return [_weights_file(model, location) for location in sorted(locations)]


def _location(content: mmap.mmap, match: re.Match[bytes]) -> str:
    length = sum((byte & 0x7F) << (7 * place) for place, byte in enumerate(match[1]))
    return content[match.end() : match.end() + length].decode("utf-8", "replace")


def _weights_file(model: Path, location: str) -> Path:
    """Return the path of a file with weights; ONNX requires it in the model's folder or below."""
    if Path(location).is_absolute() or ".." in Path(location).parts:
        raise Corrupt(f"{model} keeps weights outside its folder, in {location!r}", remedy="export the model again")
    path = model.parent / location
    if not path.is_file():
        raise NotFound(f"{model} keeps weights in {location!r}, which is not there", remedy="copy that file as well")
    return path


# Longest text and padding

# These models' position ids start after the id of padding, so their table is longer than any text may be.
_OFFSET_POSITIONS = frozenset(
    {"camembert", "data2vec-text", "longformer", "luke", "mpnet", "roberta", "roberta-prelayernorm", "xlm-roberta"}
    | {"xlm-roberta-xl", "xmod"}
)
_DEFAULT_MAX_LENGTH = 512
_NOT_A_LIMIT = 10**6  # tokenizer_config.json has 10^30 where nothing was decided


def longest_text(files: EncoderFiles, max_length: int | None, *, of_model: int | None, of_tokenizer: int | None) -> int:
    """Return the longest text in tokens: the requested length if the model allows it, else the smallest stated limit.

    `of_model` is the one length that a graph of fixed shape takes; `of_tokenizer` is where tokenizer.json
    truncates.
    """
    positions = _stated_positions(files.settings_object("config.json"))
    hard = [limit for limit in (positions, of_model) if limit is not None]
    if max_length is not None:
        if hard and max_length > min(hard):
            raise Usage(f"max_length={max_length} is more than {files.model} takes", remedy=f"give at most {min(hard)}")
        return max_length
    soft = [of_tokenizer, files.settings_object("tokenizer_config.json").get("model_max_length")]
    stated = [int(limit) for limit in soft if isinstance(limit, int | float) and 0 < limit < _NOT_A_LIMIT]
    return min([*hard, *stated], default=_DEFAULT_MAX_LENGTH)


def _stated_positions(settings: Mapping[str, Any]) -> int | None:
    """Return how many tokens the model of this config.json has positions for."""
    positions = settings.get("max_position_embeddings")
    if not isinstance(positions, int) or positions <= 0:
        return None
    pad_id = settings.get("pad_token_id")
    offset = (pad_id if isinstance(pad_id, int) else 1) + 1
    return positions - offset if settings.get("model_type") in _OFFSET_POSITIONS else positions


def padding_id(files: EncoderFiles, *, of_tokenizer: int | None, id_of: Callable[[str], int | None]) -> int:
    """Return the id that fills up short texts; the attention mask hides it, but some models count positions by it."""
    if of_tokenizer is not None:
        return of_tokenizer
    token = files.settings_object("tokenizer_config.json").get("pad_token")
    token = token.get("content") if isinstance(token, dict) else token
    candidates = [id_of(name) for name in (token, "[PAD]", "<pad>") if isinstance(name, str)]
    candidates.append(files.settings_object("config.json").get("pad_token_id"))
    return next((pad_id for pad_id in candidates if isinstance(pad_id, int)), 0)


# Pooling


@dataclass(frozen=True)
class PoolingPlan:
    """How sentence vectors are computed, or why they cannot be, which is reported only on a request for one."""

    way: Pooling | None
    trouble: str = ""


# sentence-transformers' names of the supported poolings; at unit length, its mean over √length is the mean.
_POOLING_NAMES: Mapping[str, Pooling] = {
    "mean": "mean",
    "mean_tokens": "mean",
    "mean_sqrt_len_tokens": "mean",
    "cls": "cls",
    "cls_token": "cls",
}
_MODULES = frozenset({"Transformer", "Pooling", "Normalize", "Dropout"})


def stated_pooling(files: EncoderFiles) -> PoolingPlan:
    """Return the pooling of modules.json and 1_Pooling/config.json; `mean` if they say nothing."""
    modules = files.settings("modules.json")
    kinds = [str(module.get("type")).rsplit(".", 1)[-1] for module in modules or [] if isinstance(module, dict)]
    further = [kind for kind in kinds if kind not in _MODULES]
    if further:
        return PoolingPlan(None, f"modules.json puts {', '.join(further)} behind the model, not in its ONNX file")
    names = _pooling_names(files.settings_object("1_Pooling/config.json"))
    if len(names) == 1 and names[0] in _POOLING_NAMES:
        return PoolingPlan(_POOLING_NAMES[names[0]])
    return PoolingPlan(None, f"1_Pooling/config.json asks for {', '.join(names)}") if names else PoolingPlan("mean")


def _pooling_names(settings: Mapping[str, Any]) -> list[str]:
    """Return the poolings that a configuration switches on: one key a way, or, in newer ones, one key for all."""
    chosen = settings.get("pooling_mode", [])
    prefix = "pooling_mode_"
    switched = [key.removeprefix(prefix) for key, is_on in settings.items() if key.startswith(prefix) and is_on is True]
    return [*switched, *(chosen if isinstance(chosen, list) else [str(chosen)])]


# Operations of the graph, and licence

# Field numbers of onnx.proto: a model's graph, a graph's nodes, the type of a node.
_GRAPH, _NODE, _OP_TYPE = 7, 1, 4
_VARINT, _BYTES_8, _LENGTH, _BYTES_4 = 0, 1, 2, 5
# Their scales come from the numbers of a whole batch, so that a text's vectors depend on its neighbours.
DYNAMIC_QUANTISATION = ("DynamicQuantizeLinear", "DynamicQuantizeMatMul", "DynamicQuantizeLSTM", "MatMulIntegerToFloat")


def operations_of(model: Path) -> dict[str, int]:
    """Return how many nodes of each type a graph has; nodes of graphs inside a node are not counted."""
    counts = Counter[str]()
    try:
        with model.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
            for graph in _messages(content, 0, len(content), _GRAPH):
                for node in _messages(content, *graph, _NODE):
                    for first, end in _messages(content, *node, _OP_TYPE):
                        counts[content[first:end].decode("utf-8", "replace")] += 1
    except (IndexError, ValueError) as error:
        raise Corrupt(f"{model} is not an ONNX file: {error}", remedy="export the model again") from error
    return dict(sorted(counts.items()))


def _messages(content: mmap.mmap, at: int, end: int, number: int) -> Iterator[tuple[int, int]]:
    """Yield where the fields of one number begin and end in a message of protobuf."""
    while at < end:
        key, at = _varint(content, at)
        kind = key & 7
        if kind == _VARINT:
            _, at = _varint(content, at)
        elif kind == _LENGTH:
            size, at = _varint(content, at)
            if key >> 3 == number:
                yield at, at + size
            at += size
        elif kind in (_BYTES_8, _BYTES_4):
            at += 8 if kind == _BYTES_8 else 4
        else:
            raise ValueError(f"a field of the type {kind}")


def _varint(content: mmap.mmap, at: int) -> tuple[int, int]:
    value, shift = 0, 0
    while True:
        byte = content[at]
        value, shift, at = value | (byte & 0x7F) << shift, shift + 7, at + 1
        if byte < 0x80:
            return value, at


_LICENCE = re.compile(r"^licen[cs]e:[ \t]*[\"']?([\w.+-]+)", re.MULTILINE | re.IGNORECASE)
_KNOWN_LICENCES = {"Apache License": "apache-2.0", "MIT License": "mit", "BSD 3-Clause": "bsd-3-clause"}


def stated_licence(root: Path) -> str:
    """Return the licence that the head of README.md names, or that LICENSE is the text of; else `unknown`."""
    readme = root / "README.md"
    if readme.is_file():
        head = readme.read_text("utf-8", "replace").removeprefix("---\n").split("\n---", 1)[0]
        if (stated := _LICENCE.search(head)) is not None:
            return stated[1].lower()
    for name in ("LICENSE", "LICENSE.txt", "LICENSE.md", "LICENCE"):
        if (root / name).is_file():
            text = (root / name).read_text("utf-8", "replace")
            return next((licence for title, licence in _KNOWN_LICENCES.items() if title in text), "unknown")
    return "unknown"
