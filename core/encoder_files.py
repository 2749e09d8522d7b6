"""The files of an encoder: where they lie, what they say of its use, and what they are by their bytes.

Beside the model and its tokenizer there may be weights in files of their own, and the small JSON files in which Hugging
Face and sentence-transformers keep how long a text may be, how it is padded and how a sentence gets one vector.
"""

from __future__ import annotations

import hashlib
import mmap
import os
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, Self

import orjson

from core.errors import Corrupt, NotFound, Usage
from core.files import sha256_of

Pooling = Literal["output", "mean", "cls"]

# Where they lie


@dataclass(frozen=True)
class EncoderFiles:
    """Where an encoder's files lie; `root` is the folder above `onnx/`, where Hugging Face keeps the settings."""

    model: Path
    tokenizer: Path
    root: Path

    @classmethod
    def find(cls, path: Path) -> Self:
        """The files of the encoder in a folder, or of the model that is named itself."""
        given = Path(os.path.abspath(path))  # noqa: PTH100  a link's own name is kept
        model = _model_file(given)
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
        """The name in front of the hash: the folder's for a model that is called just `model`, else the file's."""
        stem = self.root.name if self.model.stem.startswith("model") else self.model.stem
        return re.sub(r"[^A-Za-z0-9._-]", "-", stem) or "encoder"

    def settings(self, name: str) -> Any:
        """Read one of the small JSON files; None where it is missing."""
        for path in (self.tokenizer.parent / name, self.root / name):
            if path.is_file():
                try:
                    return orjson.loads(read_whole(path))
                except orjson.JSONDecodeError as error:
                    raise Corrupt(f"{path} is not JSON: {error}", remedy="copy the encoder's files again") from error
        return None

    def settings_object(self, name: str) -> Mapping[str, Any]:
        """Read one of the small JSON files that hold an object; empty where it is missing."""
        found = self.settings(name)
        if found is not None and not isinstance(found, dict):
            raise Corrupt(f"{name} of {self.root} holds no JSON object", remedy="copy the encoder's files again")
        return found or {}


_MOST_NAMED = 5


def _model_file(given: Path) -> Path:
    if given.is_file():
        return given
    for candidate in (given / "model.onnx", given / "onnx" / "model.onnx"):
        if candidate.is_file():
            return candidate
    if not given.is_dir():
        raise NotFound(
            f"there is no encoder at {str(given)!r}",
            remedy="give a folder with model.onnx (or onnx/model.onnx) and tokenizer.json, or the .onnx file itself",
        )
    # In the folder and in those it holds, no deeper: what was named by mistake may be a whole disk.
    others = sorted(str(found.relative_to(given)) for depth in ("*.onnx", "*/*.onnx") for found in given.glob(depth))
    named = ", ".join(others[:_MOST_NAMED]) + (f" … ({len(others)} in all)" if len(others) > _MOST_NAMED else "")
    raise NotFound(
        f"{given} has neither model.onnx nor onnx/model.onnx",
        remedy=f"give the path of the file itself: {named}" if others else "export the model to ONNX",
    )


def read_whole(path: Path) -> bytes:
    """The bytes of a small file, or NotFound with the reason."""
    try:
        return path.read_bytes()
    except OSError as error:
        raise _unreadable(path, error) from error


def _unreadable(path: Path, error: OSError) -> NotFound:
    return NotFound(f"cannot read {path}: {error.strerror or error}", remedy="an encoder needs all of its files")


# What they are by their bytes

# How a weight names the file that holds it (onnx.proto: StringStringEntryProto in TensorProto.external_data), as it is
# stored: field 1 "location", field 2 with its length as a varint.
_LOCATION = re.compile(rb"\x0a\x08location\x12([\x80-\xff]{0,4}[\x00-\x7f])")
_GIT_LFS_POINTER = b"version https://git-lfs"


def weights_sha256(model: Path) -> str:
    """The hash of the model with all the files that hold weights of it (model.onnx_data …)."""
    return hash_of(_file_hash(file) for file in (model, *_external_data(model)))


def hash_of(parts: Iterable[str]) -> str:
    """One hash of several strings."""
    return hashlib.sha256("|".join(parts).encode()).hexdigest()


def refuse_pointer(path: Path, start: bytes) -> None:
    """Tell a file from what Git leaves in its place where large files are kept apart."""
    if start.startswith(_GIT_LFS_POINTER):
        raise Corrupt(f"{path} is only a Git LFS pointer to the file", remedy="run `git lfs pull` in its folder")


def _file_hash(path: Path) -> str:
    try:
        return sha256_of(path)
    except OSError as error:
        raise _unreadable(path, error) from error


def _external_data(model: Path) -> list[Path]:
    """Find the files that hold weights of the model: they are as much the model as it is."""
    try:
        with model.open("rb") as file:
            if os.fstat(file.fileno()).st_size == 0:
                raise Corrupt(f"{model} is empty", remedy="export the model again, or copy it again")
            with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
                refuse_pointer(model, content[: len(_GIT_LFS_POINTER)])
                locations = {_location(content, found) for found in _LOCATION.finditer(content)}
    except OSError as error:
        raise _unreadable(model, error) from error
    return [_beside(model, location) for location in sorted(locations)]


def _location(content: mmap.mmap, found: re.Match[bytes]) -> str:
    length = sum((byte & 0x7F) << (7 * place) for place, byte in enumerate(found[1]))
    return content[found.end() : found.end() + length].decode("utf-8", "replace")


def _beside(model: Path, location: str) -> Path:
    """Give the path of a file with weights; ONNX wants it in the model's folder or below."""
    if Path(location).is_absolute() or ".." in Path(location).parts:
        raise Corrupt(f"{model} keeps weights outside its folder, in {location!r}", remedy="export the model again")
    path = model.parent / location
    if not path.is_file():
        raise NotFound(f"{model} keeps weights in {location!r}, which is not there", remedy="copy that file as well")
    return path


# How long a text may be, and what fills it up

# Position ids of these start behind the id of padding, so that their table is longer than any text may be.
_OFFSET_POSITIONS = frozenset(
    {"camembert", "data2vec-text", "longformer", "luke", "mpnet", "roberta", "roberta-prelayernorm", "xlm-roberta"}
    | {"xlm-roberta-xl", "xmod"}
)
_DEFAULT_MAX_LENGTH = 512
_NOT_A_LIMIT = 10**6  # tokenizer_config.json has 10^30 where nothing was decided


def longest_text(files: EncoderFiles, asked: int | None, *, of_model: int | None, of_tokenizer: int | None) -> int:
    """The longest text in tokens: what was asked for if the model can take it, else the smallest limit stated.

    `of_model` is the one length that a graph of fixed shape takes; `of_tokenizer` is where tokenizer.json cuts.
    """
    positions = _stated_positions(files.settings_object("config.json"))
    hard = [limit for limit in (positions, of_model) if limit is not None]
    if asked is not None:
        if hard and asked > min(hard):
            raise Usage(f"max_length={asked} is more than {files.model} takes", remedy=f"give at most {min(hard)}")
        return asked
    soft = [of_tokenizer, files.settings_object("tokenizer_config.json").get("model_max_length")]
    stated = [int(limit) for limit in soft if isinstance(limit, int | float) and 0 < limit < _NOT_A_LIMIT]
    return min([*hard, *stated], default=_DEFAULT_MAX_LENGTH)


def _stated_positions(settings: Mapping[str, Any]) -> int | None:
    """How many tokens the model of this config.json has positions for."""
    positions = settings.get("max_position_embeddings")
    if not isinstance(positions, int) or positions <= 0:
        return None
    pad_id = settings.get("pad_token_id")
    offset = (pad_id if isinstance(pad_id, int) else 1) + 1
    return positions - offset if settings.get("model_type") in _OFFSET_POSITIONS else positions


def padding_id(files: EncoderFiles, *, of_tokenizer: int | None, id_of: Callable[[str], int | None]) -> int:
    """The id to fill up short texts with; the attention mask hides it, but some models count positions by it."""
    if of_tokenizer is not None:
        return of_tokenizer
    token = files.settings_object("tokenizer_config.json").get("pad_token")
    token = token.get("content") if isinstance(token, dict) else token
    known = [id_of(name) for name in (token, "[PAD]", "<pad>") if isinstance(name, str)]
    known.append(files.settings_object("config.json").get("pad_token_id"))
    return next((pad_id for pad_id in known if isinstance(pad_id, int)), 0)


# How a sentence gets one vector


@dataclass(frozen=True)
class PoolingPlan:
    """How sentence vectors are made, or why they cannot be: only who asks for one is told so."""

    way: Pooling | None
    trouble: str = ""


# How sentence-transformers names what we can do; scaled to unit length, its mean over √length is the mean.
_POOLING_NAMES: Mapping[str, Pooling] = {
    "mean": "mean",
    "mean_tokens": "mean",
    "mean_sqrt_len_tokens": "mean",
    "cls": "cls",
    "cls_token": "cls",
}
_MODULES = frozenset({"Transformer", "Pooling", "Normalize", "Dropout"})


def stated_pooling(files: EncoderFiles) -> PoolingPlan:
    """What modules.json and 1_Pooling/config.json say; `mean` where they say nothing."""
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
    """What a pooling's configuration switches on: one key a way, or, in newer ones, one key for all."""
    chosen = settings.get("pooling_mode", [])
    prefix = "pooling_mode_"
    switched = [key.removeprefix(prefix) for key, value in settings.items() if key.startswith(prefix) and value is True]
    return [*switched, *(chosen if isinstance(chosen, list) else [str(chosen)])]
