"""Open the adems of a home, each with the vhred that it was fitted with."""

from __future__ import annotations

from refaug.core.artefacts.kinds import artefact_stores
from refaug.core.errors import NotFound
from refaug.core.home import Settings
from refaug.evaluation.home.vhreds import open_vhred
from refaug.rater.adem.scorer.adem import Adem, open_adem, read_adem_manifest


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
