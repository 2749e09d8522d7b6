"""Encoders in a home: a folder that was exported to ONNX, copied as a version of a name."""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from refaug.core.artefacts.manifests import MANIFEST, write_manifest
from refaug.core.artefacts.versions import Versions
from refaug.core.files import make_folder, remove_tree, require_name
from refaug.core.vectors.encoder_files import DYNAMIC_QUANTISATION, EncoderFiles, operations_of, stated_licence
from refaug.core.vectors.encoders import open_encoder

KIND: Final = "encoder"
_FORMAT_VERSION: Final = 1
_MODEL: Final = "model.onnx"
_FOLDERS: Final = ("", "onnx", "1_Pooling")  # those whose files decide what an encoder gives


@dataclass(frozen=True, kw_only=True)
class StoredEncoder:
    """A version of an encoder."""

    spec: str  # name@version#content
    dimensions: int
    bytes: int


def import_encoder(
    encoders: Versions, cache: Path, name: str, path: Path, *, publish: bool = True, licence: str | None = None
) -> StoredEncoder:
    """Copy the encoder at a path as a new version; its content is that of the encoder, wherever it lies.

    Without a licence its README.md or LICENSE is asked.
    """
    require_name(KIND, name)
    opened, files = open_encoder(path), EncoderFiles.find(path)
    content, staged = opened.name.partition("#")[2], cache / f"{KIND}-{name}"
    with encoders.writing(name, f"importing encoder {name}") as writer:
        remove_tree(staged)
        make_folder(staged)
        names = [_copied(file, files, staged) for file in _files_of(files)]
        operations = operations_of(files.model)
        facts = {
            "dimensions": opened.dimensions,
            "pooling": opened.pooling,
            "max_length": opened.max_length,
            "licence": licence or stated_licence(files.root),
            "operations": operations,
            "dynamic_quantisation": any(name in operations for name in DYNAMIC_QUANTISATION),
            "file": path.name,
        }
        write_manifest(staged, KIND, _FORMAT_VERSION, names, facts, id_of=lambda _files: content)
        size = sum((staged / file).stat().st_size for file in names)
        version = writer.add(staged)
        if publish:
            writer.publish(version)
    return StoredEncoder(spec=f"{name}@{version}#{content}", dimensions=opened.dimensions, bytes=size)


def _files_of(files: EncoderFiles) -> list[Path]:
    folders = (files.root / folder for folder in _FOLDERS)
    found = [file for folder in folders if folder.is_dir() for file in sorted(folder.iterdir()) if file.is_file()]
    return [file for file in found if file != files.root / MANIFEST]  # a version of another home has its own


def _copied(file: Path, files: EncoderFiles, staged: Path) -> str:
    """Copy a file to its place below the root, the model under the name by which it is found; return the place."""
    place = file.relative_to(files.root)
    if file == files.model:
        place = place.with_name(_MODEL)
    make_folder((staged / place).parent)
    shutil.copyfile(file, staged / place)
    return str(place)
