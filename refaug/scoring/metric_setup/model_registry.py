"""The models of a home by kind and name, each opened once: for commands, requests, jobs and `import refaug` alike.

A name stands for the version that is published now. Signatures add the content, `name@version#content`, and a version
of another content is refused. The versions of each kind that were used last stay open.
"""

from __future__ import annotations

import threading
import weakref
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from refaug.core.artefacts.kinds import artefact_stores, encodings_in
from refaug.core.artefacts.manifests import MANIFEST
from refaug.core.artefacts.versions import Versions
from refaug.core.errors import Conflict, NotFound, Usage
from refaug.core.files import NAME, read_json
from refaug.core.home import Settings
from refaug.core.installation import MODELS, extras_named, find
from refaug.core.memory import BoundedCache
from refaug.core.processes.forking import held_over_fork
from refaug.core.text.messages import suggestion
from refaug.metrics.models.model_kinds import ModelKind, OpenedEncoder, OpenedVectors, PathVectors
from refaug.metrics.specification import Specification, named_models

if TYPE_CHECKING:
    from refaug.bots.endpoint.specification import Endpoint
    from refaug.bots.endpoint.spending import Spending
    from refaug.indexer.search.index import ReferenceIndex
    from refaug.rater.adem.scorer.adem import Adem
    from refaug.rater.adem.vhred.artefact import Vhred
    from refaug.rater.rating import Rater
    from refaug.rater.ruber.network import Relevance

_MOST_OPEN: Final = 3  # versions of each kind
_DIGITS: Final = 12  # of content hashes
FindFile = Callable[[str], Path]  # returns the file that a signature names as `name#hash`; NotFound where there is none


class _OpenVersions:
    """The open versions of every kind; thread-safe."""

    def __init__(self, most: int) -> None:
        self._by_kind = defaultdict[ModelKind, BoundedCache[str, Any]](lambda: BoundedCache(most))
        self._lock = held_over_fork(threading.RLock())

    def get(self, kind: ModelKind, name: str, open_version: Callable[[], Any]) -> Any:
        """Return a version, opened only once, even if two threads ask for it at once."""
        with self._lock:
            opened = self._by_kind[kind].get(name)
            if opened is None:
                opened = open_version()
                self._by_kind[kind].put(name, opened)
            return opened


@dataclass(frozen=True, kw_only=True)
class JudgeLimits:
    """What judges may do for requests from other machines: only judges of the home, and only within these limits."""

    hosts: tuple[str, ...]  # host, host:port, address or network
    tokens_a_day: int


@dataclass(frozen=True, eq=False)
class ModelRegistry:
    """What opens models of one home, and the models of metrics that name none; thread-safe.

    Defaults are `name`, `name@version` or with the content.
    """

    home: Settings
    threads: int | None = None
    allows_paths: bool = True  # False: for requests and jobs, whose sender has no files here
    find_file: FindFile | None = None  # finds the files that signatures name
    default_rater: str | None = None  # of replies where a metric names none, and of references of the sample
    sample: str | None = None  # the index that `ruber` samples where it names none
    asks_judge: bool = True  # False: only stored answers count
    judge_limits: JudgeLimits | None = None  # None: the user of a command has written the judge's file
    spending: dict[str, Spending] | None = None  # of one command or request, by the endpoint; None: before it
    leased: Mapping[tuple[ModelKind, str], Any] = field(default_factory=dict)  # open for a request, by name@version
    _opened: _OpenVersions = field(default_factory=lambda: _OpenVersions(_MOST_OPEN))

    def with_leased(self, *, rater: Rater | None = None, indexes: Iterable[ReferenceIndex] = ()) -> ModelRegistry:
        """Return the registry with a rater, the default, and indexes that are open already."""
        leased: dict[tuple[ModelKind, str], Any] = {
            (ModelKind.INDEX, index.spec.partition("#")[0]): index for index in indexes
        }
        if rater is None:
            return replace(self, leased={**self.leased, **leased}) if leased else self
        leased[ModelKind.RATER, rater.spec.partition("#")[0]] = rater
        return replace(self, leased={**self.leased, **leased}, default_rater=rater.spec)

    # ── by kind ───────────────────────────────────────────────────────────────────────────────────────────────────

    def rater(self, spec: str) -> Rater:
        """Return a rater."""
        rater: Rater = self._get(ModelKind.RATER, spec)
        return rater

    def ruber(self, spec: str) -> Relevance:
        """Return a ruber."""
        ruber: Relevance = self._get(ModelKind.RUBER, spec)
        return ruber

    def vhred(self, spec: str) -> Vhred:
        """Return a VHRED."""
        vhred: Vhred = self._get(ModelKind.VHRED, spec)
        return vhred

    def adem(self, spec: str) -> Adem:
        """Return an adem."""
        adem: Adem = self._get(ModelKind.ADEM, spec)
        return adem

    def fitted_judge(self, spec: str) -> Any:
        """Return a fitted judge, a StoredJudge of the extra of judges, without the models of its metrics."""
        return self._get(ModelKind.FITTED_JUDGE, spec)

    def index(self, spec: str) -> ReferenceIndex:
        """Return an index; its version is held while somebody uses it."""
        index: ReferenceIndex = self._get(ModelKind.INDEX, spec)
        return index

    def judge(self, spec: str) -> Endpoint:
        """Return a judge behind an endpoint, by its name in the home or the path of its file."""
        from refaug.bots.endpoint.judge_files import find_judge, judge_names  # noqa: PLC0415  only here

        name, _, content = spec.partition("#")
        self._require_one_meaning(ModelKind.JUDGE, name)
        if _is_path(ModelKind.JUDGE, name):
            endpoint = find_judge(self.home, name)
        elif name in judge_names(self.home) or not content or self.find_file is None:
            if name not in judge_names(self.home):
                raise self._unknown(ModelKind.JUDGE, name)
            endpoint = find_judge(self.home, name)
        else:
            endpoint = find_judge(self.home, str(self.find_file(spec)))
        if content and endpoint.content_hash != content:
            raise _of_other_content(ModelKind.JUDGE, spec, f"{endpoint.name}#{endpoint.content_hash}")
        return endpoint

    def vectors(self, spec: str) -> OpenedVectors:
        """Return word vectors, by their name in the home, or the path of a file."""
        opened: OpenedVectors = self._vectors_of(ModelKind.VECTORS, spec, PathVectors().vectors)
        return opened

    def encoder(self, spec: str) -> OpenedEncoder:
        """Return an encoder, by its name in the home, or the path of a folder."""
        opened: OpenedEncoder = self._vectors_of(ModelKind.ENCODER, spec, PathVectors().encoder)
        return opened

    # ── names ─────────────────────────────────────────────────────────────────────────────────────────────────────

    def pinned(self, kind: ModelKind, spec: str) -> str:
        """Return `name@version#content`, or `name#content` of a judge, so that no later publication changes it."""
        if kind is ModelKind.JUDGE:
            endpoint = self.judge(spec)
            return f"{endpoint.name}#{endpoint.content_hash}"
        if kind in (ModelKind.VECTORS, ModelKind.ENCODER) and _is_path(kind, spec):
            return (self.vectors(spec) if kind is ModelKind.VECTORS else self.encoder(spec)).spec
        name = self.resolve(kind, spec)
        return f"{name}#{self._content_of(kind, name)}"

    def resolve(self, kind: ModelKind, spec: str) -> str:
        """Return `name@version`; NotFound or Conflict where this home has no such version, or one of other content."""
        named, _, content = spec.partition("#")
        store = self._store(kind)
        try:
            name = "@".join(store.resolve(named))
        except NotFound:
            if named.partition("@")[0] in store.names():
                raise
            raise self._unknown(kind, named) from None
        if content and self._content_of(kind, name) != content:
            raise _of_other_content(kind, spec, f"{name}#{self._content_of(kind, name)}")
        return name

    def _get(self, kind: ModelKind, spec: str) -> Any:
        named, _, content = spec.partition("#")
        leased = self.leased.get((kind, named))
        if leased is not None and (not content or content == leased.spec.partition("#")[2]):
            return leased  # the home need not have it
        name = self.resolve(kind, spec)
        if (kind, name) in self.leased:
            return self.leased[kind, name]
        return self._opened.get(kind, name, partial(_OPENERS[kind], self.home, name, self.threads))

    def _vectors_of(self, kind: ModelKind, spec: str, open_path: Callable[[str], Any]) -> Any:
        named, _, content = spec.partition("#")
        self._require_one_meaning(kind, named)
        if _is_path(kind, named):
            return _of_content(open_path(named), kind, spec)
        if content and "@" not in named:  # the signature of a score by a file
            if (version := self._version_of_content(kind, content)) is not None:
                return replace_spec(self._get_vectors(kind, version), spec)
            if self.find_file is None:
                raise NotFound(
                    f"the {kind} {spec} were a file, and this home has none of that content",
                    remedy=f"vectors=./FILE, or refaug index {kind} import NAME FILE",
                )
            return _of_content(open_path(str(self.find_file(spec))), kind, spec)
        return self._get_vectors(kind, self.resolve(kind, spec))

    def _get_vectors(self, kind: ModelKind, name: str) -> Any:
        return self._opened.get(kind, name, partial(_OPENERS[kind], self.home, name, self.threads))

    def _version_of_content(self, kind: ModelKind, content: str) -> str | None:
        store = self._store(kind)
        versions = (f"{name}@{version}" for name in store.names() for version in reversed(store.versions(name)))
        return next((version for version in versions if self._content_of(kind, version) == content), None)

    def stores(self, kind: ModelKind, spec: str) -> bool:
        """Return whether the home has a model as a signature names it: by its version, or by its content alone."""
        named, _, content = spec.partition("#")
        if kind is ModelKind.JUDGE:
            return named in self._names(kind)
        return "@" in named or (bool(content) and self._version_of_content(kind, content) is not None)

    def _content_of(self, kind: ModelKind, name: str) -> str:
        manifest: Any = read_json(self._store(kind).folder(*name.split("@")) / MANIFEST)
        return str(manifest.get("sha256" if kind is ModelKind.VECTORS else "id", ""))[:_DIGITS]

    def _store(self, kind: ModelKind) -> Versions:
        return artefact_stores(self.home)[kind]

    def _names(self, kind: ModelKind) -> list[str]:
        if kind is ModelKind.JUDGE:
            from refaug.bots.endpoint.judge_files import judge_names  # noqa: PLC0415

            return judge_names(self.home)
        return list(self._store(kind).names())

    def _unknown(self, kind: ModelKind, spec: str) -> NotFound:
        """Return the error of a name that this home does not have: of another kind, or nearly another name."""
        name, names = spec.partition("@")[0], self._names(kind)
        if other := next((of for of in ModelKind if of is not kind and name in self._names(of)), None):
            return NotFound(
                f"there is no {kind} {name!r} in this home: {name!r} is {_a(other)}",
                remedy=f"there are: {', '.join(names) or 'none so far'}",
            )
        path = f"; ./{spec} for the file" if self.allows_paths and _may_be_path(kind) and Path(spec).exists() else ""
        return NotFound(
            f"there is no {kind} {name!r} in this home{suggestion(name, names)}",
            remedy=f"there are: {', '.join(names) or 'none so far'}{path}",
        )

    def require_names(self, specifications: Iterable[str]) -> None:
        """Raise Usage for a metric that names a model by a path, where paths are not allowed."""
        for text in specifications:
            for kind, spec in named_models(Specification.parse(text)):
                self._require_one_meaning(kind, spec.partition("#")[0])

    def _require_one_meaning(self, kind: ModelKind, text: str) -> None:
        """Raise Usage for a path from another machine, and for a name that is both of the home and of a file."""
        if _is_path(kind, text):
            if not self.allows_paths:
                raise Usage(
                    f"{text} is a path, and only the command and import refaug read files",
                    remedy=f"NAME or NAME@VERSION: there are {', '.join(self._names(kind)) or 'none so far'}",
                )
            return
        name = text.partition("@")[0]
        if self.allows_paths and NAME.fullmatch(name) and name in self._names(kind) and Path(text).exists():
            raise Usage(
                f"{text} is both {kind} of this home and a file of this folder",
                remedy=f"{_versioned(self, kind, text)} for the one, ./{text} for the other",
            )


def _versioned(registry: ModelRegistry, kind: ModelKind, text: str) -> str:
    return f"--home/…/{text}" if kind is ModelKind.JUDGE else registry.resolve(kind, text)


def replace_spec(opened: Any, spec: str) -> Any:
    """Return named vectors under another name of the same content."""
    return opened._replace(spec=spec)


def _of_content(opened: Any, kind: ModelKind, spec: str) -> Any:
    content = spec.partition("#")[2]
    if content and opened.spec.partition("#")[2] != content:
        raise _of_other_content(kind, spec, opened.spec)
    return opened


def _of_other_content(kind: ModelKind, spec: str, stored: str) -> Conflict:
    return Conflict(
        f"the scores were made by {kind} {spec}, and {spec.partition('#')[0]} is {stored} here",
        remedy="import the version that the signature names",
    )


def _may_be_path(kind: ModelKind) -> bool:
    return kind in (ModelKind.JUDGE, ModelKind.VECTORS, ModelKind.ENCODER)


def _is_path(kind: ModelKind, text: str) -> bool:
    return _may_be_path(kind) and "/" in text


def _a(kind: ModelKind) -> str:
    return "word vectors" if kind is ModelKind.VECTORS else f"{'an' if kind[0] in 'aeiou' else 'a'} {kind}"


# ── Opening ───────────────────────────────────────────────────────────────────────────────────────────────────────────


def _open_index(home: Settings, spec: str, threads: int | None) -> Any:
    from refaug.scoring.home.indexes import open_index  # noqa: PLC0415  faiss

    index = open_index(home, spec, threads=threads)
    for held in (index.held, index.sources.held):
        if held is not None:
            weakref.finalize(index, held.close)  # a call in another thread may still use what is dropped here
    return index


def _open_rater(home: Settings, spec: str, threads: int | None) -> Any:
    from refaug.scoring.home.networks import open_rater  # noqa: PLC0415  torch

    return open_rater(home, spec, threads=threads)


@extras_named()
def _open_ruber(home: Settings, spec: str, threads: int | None) -> Any:
    from refaug.scoring.home.torch_networks import open_ruber  # noqa: PLC0415  torch

    return open_ruber(home, spec, threads=threads)


@extras_named()
def _open_vhred(home: Settings, spec: str, threads: int | None) -> Any:
    from refaug.scoring.home.torch_networks import open_vhred  # noqa: PLC0415  torch

    return open_vhred(home, spec, threads=threads)


@extras_named()
def _open_adem(home: Settings, spec: str, threads: int | None) -> Any:
    from refaug.scoring.home.torch_networks import open_stored_adem  # noqa: PLC0415  torch

    return open_stored_adem(home, spec, threads=threads)


def _open_fitted_judge(home: Settings, spec: str, threads: int | None) -> Any:
    return find(MODELS, ModelKind.FITTED_JUDGE.value)(home, spec, threads)


def _open_vectors(home: Settings, spec: str, threads: int | None) -> OpenedVectors:
    from refaug.indexer.index_folders import open_vectors_version  # noqa: PLC0415  numpy

    del threads
    with artefact_stores(home)[ModelKind.VECTORS].open(spec) as held:
        opened = open_vectors_version(held)
        return OpenedVectors(opened, f"{held.name}@{held.version}#{opened.sha256[:_DIGITS]}")


def _open_encoder(home: Settings, spec: str, threads: int | None) -> OpenedEncoder:
    from refaug.core.vectors.encoder_files import stored_calibration  # noqa: PLC0415  numpy
    from refaug.indexer.index_folders import open_encoder_version  # noqa: PLC0415  numpy

    with artefact_stores(home)[ModelKind.ENCODER].open(spec) as held:
        opened = open_encoder_version(held, encodings_in(home.cache), threads=threads or 1)
        return OpenedEncoder(opened, opened.name, stored_calibration(held.folder))


_OPENERS: Final[Mapping[ModelKind, Callable[[Settings, str, int | None], Any]]] = {
    ModelKind.INDEX: _open_index,
    ModelKind.RATER: _open_rater,
    ModelKind.RUBER: _open_ruber,
    ModelKind.VHRED: _open_vhred,
    ModelKind.ADEM: _open_adem,
    ModelKind.FITTED_JUDGE: _open_fitted_judge,
    ModelKind.VECTORS: _open_vectors,
    ModelKind.ENCODER: _open_encoder,
}
