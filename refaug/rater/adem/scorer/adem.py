"""A fitted scorer with its encoder and the texts that it was fitted to; in memory and on disk."""

from __future__ import annotations

import platform
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from threading import Lock
from typing import Any, Final

import numpy as np
import torch

from refaug.core.artefacts import manifests
from refaug.core.errors import Corrupt, Usage
from refaug.core.files import make_folder, read_json, write_json
from refaug.rater.adem.scorer.bilinear import Bilinear
from refaug.rater.adem.scorer.fitting import DialogueEncoder, PrincipalComponents, Scorer, VectorCache
from refaug.rater.adem.scorer.rated_triples import LEAST, MOST, Floats, Form, Triple
from refaug.rater.adem.scorer.seen_texts import SEEN, SeenTexts
from refaug.rater.adem.scorer.settings import STATES, State
from refaug.rater.torch_networks import read_tensors, write_tensors

KIND: Final = "adem"
FORMAT_VERSION: Final = 1
WEIGHTS: Final = "scorer.safetensors"
REPORT: Final = "report.json"
SCORER_FILES: Final = (WEIGHTS, SEEN)  # that decide what an adem answers
SCALE: Final = (LEAST, MOST)
_SETTINGS: Final = ("config", "encoder")  # that decide what the scorer answers, beside its files
_REMEDY: Final = "restore it from a backup, or train it again"


@dataclass(frozen=True, kw_only=True)
class StoredAdem:
    """The manifest of an adem."""

    id: str
    form: Form
    state: State
    encoder: str  # name@version#content of the vhred
    encoder_id: str
    details: Mapping[str, Any]


class Adem:
    """A scorer that scores triples; several threads may use it."""

    def __init__(
        self, scorer: Scorer, encoder: DialogueEncoder, *, state: State, seen: SeenTexts | None = None, spec: str = ""
    ) -> None:
        self.scorer, self.encoder, self.state, self.spec = scorer, encoder, state, spec
        self.seen = seen or SeenTexts(hashes=frozenset())
        self._lock = Lock()

    @property
    def form(self) -> Form:
        """The terms that the score has."""
        return self.scorer.bilinear.form

    def score(self, triples: Sequence[Triple]) -> Floats:
        """Return the score of each triple; an empty reply gets the least of the scale, unasked."""
        scores = np.full(len(triples), LEAST)
        rows = [row for row, triple in enumerate(triples) if triple.reply.strip()]
        if rows:
            nonempty = [triples[row] for row in rows]
            with self._lock:
                vectors = VectorCache(self.encoder, self.state).triple_vectors(nonempty, self.form)
            scores[rows] = self.scorer.score(vectors)
        return scores


def save_adem(
    folder: Path,
    scorer: Scorer,
    *,
    state: State,
    encoder: str,
    encoder_id: str,
    seen: SeenTexts,
    report: Mapping[str, Any],
    details: Mapping[str, Any],
) -> str:
    """Write an adem's folder and return its id, a hash of its files and of the settings that decide its answers."""
    make_folder(folder)
    write_tensors(folder / WEIGHTS, _tensors(scorer))
    write_json(folder / REPORT, dict(report))
    seen.write(folder / SEEN)
    settings = {
        "config": {"form": scorer.bilinear.form.value, "state": state, "scale": list(SCALE)},
        "encoder": {"spec": encoder, "id": encoder_id},
    }
    return manifests.write_manifest(
        folder,
        KIND,
        FORMAT_VERSION,
        [WEIGHTS, SEEN, REPORT],
        settings,
        id_of=lambda files: _content_name(files, settings),
        after={
            "software": {"numpy": np.__version__, "python": platform.python_version()},
            "details": dict(details),
        },
    )


def _content_name(files: Mapping[str, Any], settings: Mapping[str, Any]) -> str:
    """Return the id; the name of the encoder is not part of it, for its content is."""
    named = {**settings, "encoder": settings["encoder"]["id"]}
    return manifests.content_id({"files": {name: files[name] for name in SCORER_FILES}}, named)


def read_adem_manifest(folder: Path) -> StoredAdem:
    """Read an adem's manifest; raise Corrupt if the folder holds something else."""
    path = folder / manifests.MANIFEST
    manifest: Mapping[str, Any] = read_json(path)
    manifests.require_format(path, manifest, KIND, FORMAT_VERSION)
    try:
        return StoredAdem(
            id=str(manifest["id"]),
            form=Form(manifest["config"]["form"]),
            state=STATES[STATES.index(manifest["config"]["state"])],
            encoder=str(manifest["encoder"]["spec"]),
            encoder_id=str(manifest["encoder"]["id"]),
            details=dict(manifest["details"]),
        )
    except (KeyError, TypeError, ValueError) as error:
        raise Corrupt(f"{path} lacks what an adem needs: {error}", remedy=_REMEDY) from error


def open_adem(folder: Path, encoder: DialogueEncoder, *, encoder_id: str, spec: str = "") -> Adem:
    """Load an adem with its encoder; refuse altered files, and an encoder that it was not fitted with."""
    stored = read_adem_manifest(folder)
    manifest: Mapping[str, Any] = read_json(folder / manifests.MANIFEST)
    manifests.require_files(folder, manifest)
    try:
        files = {name: manifest["files"][name] for name in SCORER_FILES}
        name = _content_name(manifest["files"], {setting: manifest[setting] for setting in _SETTINGS})
    except KeyError as error:
        raise Corrupt(f"{folder / manifests.MANIFEST} does not name {error}", remedy=_REMEDY) from error
    manifests.verify_files(folder, {"files": files})
    if name != stored.id:
        message = (
            f"{folder / manifests.MANIFEST} was altered: it says {stored.id[:12]}, and what is in it makes {name[:12]}"
        )
        raise Corrupt(message, remedy=_REMEDY)
    if encoder_id != stored.encoder_id:
        raise Usage(
            f"the adem was fitted to vectors of {stored.encoder}, and this vhred is {encoder_id[:12]}",
            remedy="refaug artefacts import the vhred that it was fitted with, or train the adem again",
        )
    return Adem(
        _scorer_of(folder / WEIGHTS, stored.form),
        encoder,
        state=stored.state,
        seen=SeenTexts.read(folder / SEEN),
        spec=spec,
    )


def _tensors(scorer: Scorer) -> dict[str, torch.Tensor]:
    bilinear, projection = scorer.bilinear, scorer.projection
    arrays = {
        "mean": projection.mean,
        "components": projection.components,
        "shares": projection.shares,
        "matrices": bilinear.matrices,
        "constants": np.array([bilinear.centre, bilinear.span]),
    }
    return {name: torch.from_numpy(np.array(array, dtype=np.float64, order="C")) for name, array in arrays.items()}


def _scorer_of(path: Path, form: Form) -> Scorer:
    tensors = {name: tensor.numpy() for name, tensor in read_tensors(path, remedy=_REMEDY).items()}
    wrong = next(_wrong_shapes(tensors, terms=int(form.has_context) + int(form.has_reference)), None)
    if wrong is not None:
        raise Corrupt(f"{path} does not hold this adem's numbers: {wrong}", remedy=_REMEDY)
    centre, span = tensors["constants"].tolist()
    return Scorer(
        projection=PrincipalComponents(
            mean=tensors["mean"], components=tensors["components"], shares=tensors["shares"]
        ),
        bilinear=Bilinear(form=form, matrices=tensors["matrices"], centre=centre, span=span),
    )


def _wrong_shapes(tensors: Mapping[str, Floats], *, terms: int) -> Iterator[str]:
    """Yield what is wrong with the arrays of a scorer."""
    expected = ("mean", "components", "shares", "matrices", "constants")
    if missing := [name for name in expected if name not in tensors]:
        yield f"no {missing[0]}"
        return
    if tensors["components"].ndim != 2:
        yield f"components has the shape {tensors['components'].shape}"
        return
    components, dimensions = tensors["components"].shape
    shapes = ((dimensions,), (components, dimensions), (components,), (terms, components, components), (2,))
    for name, shape in zip(expected, shapes, strict=True):
        if tensors[name].shape != shape:
            yield f"{name} has the shape {tensors[name].shape}"
