"""The encoders that ADEM is tried with: a pre-trained encoder, if the home has it, and drawn ones as a control."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from refaug.evaluation.home.vhreds import open_vhred, vhred_places
from refaug.evaluation.reproduction.material.chain import Chain
from refaug.rater.adem.pretraining.build import VhredOrder, pretrain_vhred
from refaug.rater.adem.pretraining.windows import WindowSettings
from refaug.rater.adem.scorer.encoding import DialogueEncoder
from refaug.rater.adem.vhred.sizes import PRESETS, VhredConfig
from refaug.rater.training.loop import TrainConfig

TRAINED, RANDOM = "pre-trained", "random"
_DRAWN: Final = 5  # encoders with other weights


@dataclass(frozen=True, kw_only=True)
class NamedEncoders:
    """Encoders of one kind, one for each seed."""

    name: str
    encoders: tuple[DialogueEncoder, ...]


def encoders_of(chain: Chain) -> list[NamedEncoders]:
    """Return the pre-trained encoder that the run names, if any, and drawn ones of the preset of the run."""
    kinds = list[NamedEncoders]()
    if chain.settings.vhred is not None:
        encoder = open_vhred(chain.home, chain.settings.vhred, threads=chain.settings.threads)
        chain.note("vhred", encoder.spec)
        kinds.append(NamedEncoders(name=TRAINED, encoders=(encoder,)))
    drawn = tuple(_drawn_encoder(chain, seed) for seed in range(1, min(_DRAWN, chain.settings.seeds) + 1))
    return [*kinds, NamedEncoders(name=RANDOM, encoders=drawn)]


def _drawn_encoder(chain: Chain, seed: int) -> DialogueEncoder:
    """Return an encoder with drawn weights; its pieces are learnt from the everyday logs."""
    sizes, windows = PRESETS[chain.settings.preset], WindowSettings()  # of no batches, since nothing is trained
    order = VhredOrder(
        name=chain.artefact_name(f"proof-random-{chain.settings.preset}-{seed}"),
        logs=chain.logs(chain.everyday),
        model=VhredConfig(
            embedding=sizes.embedding,
            utterance=sizes.utterance,
            context=sizes.context,
            latent=sizes.latent,
            decoder=sizes.decoder,
            max_tokens=sizes.max_tokens,
            cell="random",
        ),
        training=TrainConfig(epochs=windows.rounds, seed=seed, threads=chain.settings.threads),
        windows=windows,
        pieces=sizes.pieces,
    )
    version = pretrain_vhred(vhred_places(chain.home), order, chain.progress)
    encoder = open_vhred(chain.home, f"{version.name}@{version.version}", threads=chain.settings.threads)
    chain.note(f"vhred random {seed}", encoder.spec)
    return encoder
