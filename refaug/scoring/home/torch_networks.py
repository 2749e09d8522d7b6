"""Open the networks of a home that need torch: rubers, VHREDs, and adems with the VHRED that each was fitted with."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Final

from refaug.core.artefacts.build_stages import Stages
from refaug.core.artefacts.kinds import artefact_stores
from refaug.core.errors import NotFound
from refaug.core.home import Settings
from refaug.core.progress import Progress
from refaug.core.text.sentencepiece_tokenizer import SentencePieceTokenizer
from refaug.indexer.vectors.cooccurrence import CooccurrenceSettings
from refaug.indexer.vectors.glove import GloveSettings
from refaug.indexer.vectors.training import VectorsOrder, learn_vectors
from refaug.logs.store import StoredLog
from refaug.rater.adem.scorer.adem import Adem, open_adem, read_adem_manifest
from refaug.rater.adem.vhred.artefact import Vhred, read_vhred_manifest
from refaug.rater.network_folder import TrainingPlaces
from refaug.rater.ruber.network import Relevance, open_relevance, read_ruber_manifest
from refaug.rater.training.initial_embeddings import PieceVectors, PieceVectorSettings
from refaug.scoring.home.indexes import cores

# ── Open the VHREDs of a home ─────────────────────────────────────────────────────────────────────────────────────────


def vhred_places(settings: Settings) -> TrainingPlaces:
    """Return the folders of this home's VHREDs."""
    return TrainingPlaces(logs=settings.logs, versions=artefact_stores(settings)["vhred"], cache=settings.cache)


def open_vhred(settings: Settings, spec: str, *, threads: int | None = None) -> Vhred:
    """Open a vhred by `name` or `name@version`; it is read whole, so its version may be removed afterwards."""
    with artefact_stores(settings)["vhred"].open(spec) as held:
        name = f"{held.name}@{held.version}#{read_vhred_manifest(held.folder).id[:12]}"
        return Vhred.open(held.folder, spec=name, threads=threads or cores())


# ── Open the adems of a home, each with the vhred that it was fitted with ─────────────────────────────────────────────


def open_stored_adem(settings: Settings, spec: str, *, threads: int | None = None) -> Adem:
    """Open an adem by `name` or `name@version`; it is read whole, so its version may be removed afterwards."""
    with artefact_stores(settings)["adem"].open(spec) as held:
        stored = read_adem_manifest(held.folder)
        name = f"{held.name}@{held.version}#{stored.id[:12]}"
        vhred, _, _ = stored.encoder.partition("#")
        try:
            encoder = open_vhred(settings, vhred, threads=threads)
        except NotFound as error:
            raise NotFound(
                f"the adem {name} uses the vhred {stored.encoder}, which is not in this home",
                remedy=f"refaug artefacts import FILE, with what refaug artefacts export vhred {vhred} wrote elsewhere",
            ) from error
        return open_adem(held.folder, encoder, encoder_id=encoder.id, spec=name)


# ── Open the networks of RUBER's unreferenced part in a home ──────────────────────────────────────────────────────────


def ruber_places(settings: Settings) -> TrainingPlaces:
    """Return the folders of this home's rubers."""
    return TrainingPlaces(logs=settings.logs, versions=artefact_stores(settings)["ruber"], cache=settings.cache)


def open_ruber(settings: Settings, spec: str, *, threads: int | None = None) -> Relevance:
    """Open a ruber by `name` or `name@version`; it is read whole, so its version may be removed afterwards."""
    with artefact_stores(settings)["ruber"].open(spec) as held:
        name = f"{held.name}@{held.version}#{read_ruber_manifest(held.folder).id[:12]}"
        return open_relevance(held.folder, spec=name, threads=threads or cores())


# ── Learn the initial embeddings of a rater: GloVe vectors of its pieces, from the logs that it is trained on ─────────
#
# The rater does not know how vectors are learnt, and the code that learns vectors does not know raters: this function
# joins them.


_EPOCHS: Final = 8  # of learning the vectors, which the training of the rater changes again


def learn_piece_vectors(
    logs: Sequence[StoredLog],
    tokenizer: SentencePieceTokenizer,
    settings: PieceVectorSettings,
    folder: Path,
    progress: Progress,
) -> PieceVectors:
    """Learn vectors of the pieces of a tokenizer from all turns of the logs."""
    order = VectorsOrder(
        name="pieces",
        logs=tuple(log.manifest.name for log in logs),
        cooccurrence=CooccurrenceSettings(memory_bytes=settings.memory),
        glove=GloveSettings(
            dimensions=settings.dimensions, epochs=_EPOCHS, seed=settings.seed, threads=settings.threads
        ),
    )
    learnt = learn_vectors(Stages(folder), logs, tokenizer, order, progress)
    return PieceVectors(learnt.vectors, {name: learnt.details[name] for name in ("glove", "losses")})
