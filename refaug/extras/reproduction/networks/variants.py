"""The networks that are compared: HRED, VHRED and VHCR with and without heads, ablations, and controls."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, Literal

from refaug.core.options.decoding import made_of
from refaug.extras.reproduction.material.chain import Chain
from refaug.rater.adem.pretraining.build import VhredOrder, pretrain_vhred
from refaug.rater.adem.pretraining.dialogues import WindowSettings
from refaug.rater.adem.pretraining.targets import HeadOrder, TeacherOpeners
from refaug.rater.adem.teachers.meaning import DrawnMeaning, MeaningTeacher
from refaug.rater.adem.teachers.teacher import Teacher
from refaug.rater.adem.vhred.conversation_sizes import (
    CONVERSATION_TURNS,
    HEAD_DEFAULTS,
    LEAST_TURNS,
    SENTENCE_DROP,
    Network,
)
from refaug.rater.adem.vhred.sizes import PRESETS, VhredConfig
from refaug.rater.training.loop import TrainConfig
from refaug.rater.training.order import is_published
from refaug.scoring.home.networks import encoder_opener
from refaug.scoring.home.teachers import emotion_choice, meaning_choice, teacher_openers
from refaug.scoring.home.torch_networks import vhred_places

LOG: Final = "daily"  # of whole dialogues; the other everyday log has mostly two turns
EMOTION: Final = "vader"
SEEDS: Final = 3
ROUNDS: Final = 8
HEAD_UNITS: Final = 128
VALIDATION_SHARE: Final = 0.05

Control = Literal["", "shuffled", "drawn"]


@dataclass(frozen=True, kw_only=True)
class TrainingPlan:
    """How large batches and rounds are, and how much each network says to itself."""

    batch: int = 16  # windows of up to ten turns
    round_steps: int = 250
    conversations: int = 100


USUAL: Final = TrainingPlan()


@dataclass(frozen=True, kw_only=True)
class Variant:
    """A network, the heads that it has, and what is wrong with their targets in a control."""

    network: Network
    heads: tuple[str, ...] = ()  # emotion, meaning
    control: Control = ""
    are_input: bool = False  # the context is told what heads predict, and learns nothing by them

    @property
    def name(self) -> str:
        """The name in tables."""
        heads = "input only" if self.are_input else "EI" if len(self.heads) > 1 else "".join(self.heads)
        return " ".join(part for part in (self.network.upper(), self.control, heads) if part)


_BOTH: Final = ("emotion", "meaning")
SIX: Final = tuple(Variant(network=each, heads=heads) for each in ("hred", "vhred", "vhcr") for heads in ((), _BOTH))
ABLATED: Final[Network] = "vhred"
ABLATIONS: Final = tuple(Variant(network=ABLATED, heads=(head,)) for head in _BOTH)
INPUT_ONLY: Final = Variant(network=ABLATED, heads=_BOTH, are_input=True)
CONTROLS: Final = (
    Variant(network=ABLATED, heads=("emotion",), control="shuffled"),
    Variant(network=ABLATED, heads=("meaning",), control="drawn"),
)
VARIANTS: Final = (*SIX, *ABLATIONS, INPUT_ONLY, *CONTROLS)


@dataclass(frozen=True, kw_only=True)
class TrainedVariant:
    """A version of a variant, with what its training reported."""

    variant: Variant
    seed: int
    spec: str  # name@version
    id: str
    report: dict[str, Any]

    @property
    def name(self) -> str:
        """The name of the bot."""
        return f"{self.variant.name} {self.seed}"


def train_variant(chain: Chain, variant: Variant, seed: int, plan: TrainingPlan = USUAL) -> TrainedVariant:
    """Train a network, or return the one that the home has of the same inputs; a stopped training goes on."""
    order = _order(chain, variant, seed, plan)
    chain.progress.stage(f"training {variant.name}, seed {seed}")
    version = pretrain_vhred(vhred_places(chain.home), order, chain.progress, openers=_openers(chain, variant))
    spec = f"{version.name}@{version.version}"
    chain.note(f"vhred {variant.name} {seed}", f"{spec}#{version.id[:12]}")
    return TrainedVariant(variant=variant, seed=seed, spec=spec, id=version.id, report=dict(version.report))


def is_trained(chain: Chain, variant: Variant, seed: int, plan: TrainingPlan = USUAL) -> bool:
    """Say whether `train_variant` would return the network that the home has."""
    return is_published(vhred_places(chain.home), _order(chain, variant, seed, plan))


def _name(chain: Chain, variant: Variant, seed: int) -> str:
    role = "input" if variant.are_input else ""
    parts = [chain.settings.preset, variant.network, variant.control, role, *variant.heads, str(seed)]
    return chain.artefact_name("-".join(["proof", *(part for part in parts if part)]))


def _order(chain: Chain, variant: Variant, seed: int, plan: TrainingPlan) -> VhredOrder:
    """Return the order; all variants of a seed hold the same dialogues out."""
    sizes, rounds = PRESETS[chain.settings.preset], chain.settings.epochs or ROUNDS
    is_vhcr, latent = variant.network == "vhcr", 0 if variant.network == "hred" else sizes.latent
    return VhredOrder(
        name=_name(chain, variant, seed),
        logs=chain.logs([chain.select(LOG)]),
        model=made_of(
            VhredConfig, sizes, latent=latent, conversation=latent if is_vhcr else 0, turns=CONVERSATION_TURNS
        ),
        windows=WindowSettings(
            turns=CONVERSATION_TURNS,
            batch=plan.batch,
            steps=rounds * plan.round_steps,
            round_steps=plan.round_steps,
            sentence_drop=SENTENCE_DROP if is_vhcr else 0.0,
            least_turns=LEAST_TURNS,
            validation_share=VALIDATION_SHARE,
            seed=seed,
        ),
        kl_steps=rounds * plan.round_steps // 2,
        training=TrainConfig(
            epochs=rounds,
            patience=rounds,
            learning_rate=sizes.learning_rate,
            decay="linear",
            clip_norm=sizes.clip_norm,
            seed=seed,
            threads=chain.settings.threads,
        ),
        pieces=sizes.pieces,
        memory=chain.settings.memory,
        heads=_heads(chain, variant),
    )


def _heads(chain: Chain, variant: Variant) -> HeadOrder:
    threads = chain.settings.threads
    chosen = dict[str, Any]()
    if "emotion" in variant.heads:
        chosen["emotion"] = emotion_choice(EMOTION)
    if "meaning" in variant.heads:
        chosen["meaning"] = meaning_choice(chain.home, chain.settings.encoder, threads=threads)
    if variant.control == "drawn":
        chosen["meaning"] = replace(chosen["meaning"], id=f"drawn-{chosen['meaning'].id}")
    return HeadOrder(
        **chosen,
        meaning_weight=HEAD_DEFAULTS[variant.network].meaning_weight,
        emotion_hidden=HEAD_UNITS,
        meaning_hidden=HEAD_UNITS,
        is_shuffled=variant.control == "shuffled",
        are_input=variant.are_input,
    )


def _openers(chain: Chain, variant: Variant) -> TeacherOpeners:
    """Return what opens the teachers; vectors of texts are kept, since all networks learn from the same ones."""
    openers = teacher_openers(chain.home, threads=chain.settings.threads, keep=True)
    if variant.control != "drawn":
        return openers
    open_encoder = encoder_opener(chain.home, threads=chain.settings.threads)

    def drawn(spec: str, texts: Sequence[str]) -> Teacher:
        return DrawnMeaning(MeaningTeacher.fit(open_encoder(spec), texts), texts)

    return openers._replace(meaning=drawn)
