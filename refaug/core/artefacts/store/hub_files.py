"""A repository of the Hugging Face Hub as a store; HF_ENDPOINT names another hub, HF_TOKEN is the key.

Every change of a repository is a commit, and commits are few an hour. So files are kept here until a record is written
that names them, and all of them become one commit; what is not whole yet was never there.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from types import ModuleType
from typing import Any, Final

from refaug.core.artefacts.store.store_files import UPLOADS, StoreEntry, without_secrets
from refaug.core.errors import MissingPart, NoAccess, NotFound, Unavailable, Usage
from refaug.core.files import unique_suffix

HUB: Final = "hf"
_PIECE: Final = 8 << 20
_WITH_RECORD: Final = "objects/"  # what waits for the record that names it


def hub_library() -> ModuleType:
    """Import the library of the hub; MissingPart where it is not installed."""
    try:
        import huggingface_hub.errors  # noqa: PLC0415  optional
        import huggingface_hub.hf_api  # noqa: PLC0415
    except ImportError as error:
        raise MissingPart(
            "hf:// needs the package huggingface_hub", remedy="pip install 'refaug[huggingface]'"
        ) from error
    return huggingface_hub


class HubFiles:
    """A repository: hf://OWNER/NAME of models, hf://datasets/OWNER/NAME of data; it is made private where missing."""

    largest_rename = 2**63

    def __init__(self, location: str) -> None:
        parts = location.removeprefix(f"{HUB}://").strip("/").split("/")
        self._type = "dataset" if parts[0] == "datasets" else "model"
        parts = parts[1:] if self._type == "dataset" else parts
        if len(parts) != 2 or not all(parts):
            raise Usage(f"{location!r} names no repository", remedy="hf://OWNER/NAME or hf://datasets/OWNER/NAME")
        self._hub: Any = hub_library()
        self.name, self._repository = location, "/".join(parts)
        self._api = self._hub.HfApi(endpoint=os.environ.get("HF_ENDPOINT") or None)
        self._folder = tempfile.TemporaryDirectory(prefix="refaug-hub-")
        self._waiting = dict[str, Path]()  # path in the store → the file here

    def require_root(self) -> None:
        """Raise NotFound where there is no such repository."""
        with self._errors():
            self._api.repo_info(self._repository, repo_type=self._type)

    def size(self, path: str) -> int | None:
        """Return the size of a file; None where there is none."""
        if path in self._waiting:
            return self._waiting[path].stat().st_size
        with suppress(NotFound), self._errors():
            for info in self._api.get_paths_info(self._repository, [path], repo_type=self._type):
                return int(info.size)
        return None

    def pieces(self, path: str) -> Iterator[bytes]:
        """Yield the bytes of a file; NotFound where there is none."""
        file, is_ours = self._waiting.get(path), path in self._waiting
        if file is None:
            with self._errors():
                fetched = self._api.hf_hub_download(
                    self._repository, path, repo_type=self._type, local_dir=f"{self._folder.name}/fetched"
                )
            file = Path(fetched)
        with file.open("rb") as opened:
            while piece := opened.read(_PIECE):
                yield piece
        if not is_ours:
            file.unlink()

    def list(self, folder: str) -> list[StoreEntry]:
        """Return all files under a folder, sorted by path; none where there is no such folder."""
        now = datetime.now(UTC)
        entries = {
            path: StoreEntry(path=path, size=file.stat().st_size, modified=now)
            for path, file in self._waiting.items()
            if path.startswith(f"{folder}/")
        }
        with suppress(NotFound), self._errors():
            tree = self._api.list_repo_tree(self._repository, folder, recursive=True, expand=True, repo_type=self._type)
            for info in tree:
                if isinstance(info, self._hub.hf_api.RepoFile):
                    modified = now if info.last_commit is None else info.last_commit.date.astimezone(UTC)
                    entries.setdefault(info.path, StoreEntry(path=info.path, size=info.size, modified=modified))
        return [entries[path] for path in sorted(entries)]

    def write(self, path: str, pieces: Iterable[bytes]) -> None:
        """Keep a file here; one outside of the folder of uploads is put into the repository at once."""
        file = Path(self._folder.name) / unique_suffix()
        with file.open("wb") as opened:
            for piece in pieces:
                opened.write(piece)
        self._waiting[path] = file
        self._settle(path)

    def rename(self, path: str, target: str) -> None:
        """Give a file that is kept here its name."""
        self._waiting[target] = self._waiting.pop(path)
        self._settle(target)

    def put_new(self, path: str, content: bytes) -> bool:
        """Write a small file that must not be there; return False where it is."""
        if self.size(path) is not None:
            return False
        self.write(path, [content])
        return True

    def delete(self, path: str) -> None:
        """Delete a file; a missing one is no error."""
        file = self._waiting.pop(path, None)
        if file is not None:
            file.unlink()
        elif self.size(path) is not None:
            self._commit([self._hub.CommitOperationDelete(path_in_repo=path)], f"Delete {path}")

    def close(self) -> None:
        """Forget what was not committed."""
        self._folder.cleanup()

    def _settle(self, path: str) -> None:
        """Commit all that waits, unless it still waits for its record."""
        if path.startswith((f"{UPLOADS}/", _WITH_RECORD)):
            return
        chosen = {name: file for name, file in self._waiting.items() if not name.startswith(f"{UPLOADS}/")}
        operations = [
            self._hub.CommitOperationAdd(path_in_repo=name, path_or_fileobj=file) for name, file in chosen.items()
        ]
        self._commit(operations, f"Put {path}")
        for name, file in chosen.items():
            del self._waiting[name]
            file.unlink()

    def _commit(self, operations: Sequence[Any], message: str) -> None:
        with self._errors():
            self._api.create_repo(self._repository, repo_type=self._type, private=True, exist_ok=True)
            self._api.create_commit(self._repository, operations, commit_message=message, repo_type=self._type)

    @contextmanager
    def _errors(self) -> Iterator[None]:
        """Raise an error of refaug for one of the hub's."""
        errors = self._hub.errors
        try:
            yield
        except (errors.RepositoryNotFoundError, errors.EntryNotFoundError) as error:
            raise NotFound(
                f"the store {self.name} has no such repository or file",
                remedy="refaug artefacts push makes a repository; a private one needs HF_TOKEN",
            ) from error
        except errors.HfHubHTTPError as error:
            status = getattr(getattr(error, "response", None), "status_code", None)
            text = without_secrets(str(error).partition("\n")[0], os.environ)
            if status in (401, 403):
                raise NoAccess(f"the store {self.name} refuses this: {text}", remedy="check HF_TOKEN") from None
            raise Unavailable(
                f"the store {self.name} does not answer as it should: {text}", remedy="run the same command again later"
            ) from None
        except (errors.HTTPError, OSError) as error:
            text = without_secrets(str(error), os.environ)
            raise Unavailable(
                f"the store {self.name} cannot be reached: {text}",
                remedy="run the same command again later, it goes on",
            ) from None
