"""What trained networks say to themselves, as numbers: variety, sentiment, coherence, and the hybrid metric."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from refaug.bots.generation import GeneratingBot
from refaug.core.artefacts.build_stages import hash_of_inputs
from refaug.core.files import make_folder, read_json, sha256_of, write_json
from refaug.extras.conversations.hybrid_metric.encoders import OpenEncoders
from refaug.extras.conversations.hybrid_metric.fit import ColumnWeights, column_means
from refaug.extras.conversations.hybrids import measure
from refaug.extras.conversations.metrics.exchanges import Side
from refaug.extras.conversations.metrics.variety import utterance_hashes, variety
from refaug.extras.conversations.options import EncoderRequest, HybridSettings
from refaug.extras.conversations.reading import Conversation, read_conversations
from refaug.extras.conversations.selfplay.playing import SelfPlayed, SelfPlayStart, play
from refaug.extras.conversations.selfplay.rules import SelfPlayRules
from refaug.extras.conversations.selfplay.shared_windows import SharedWindows
from refaug.extras.conversations.table import conversation_columns
from refaug.extras.reproduction.experiments.hybrid import STUDY
from refaug.extras.reproduction.material.chain import Chain
from refaug.extras.reproduction.networks.variants import USUAL, TrainedVariant, TrainingPlan
from refaug.rater.adem.vhred.sizes import GenerationSettings
from refaug.scoring.home.torch_networks import open_vhred

OVERLAPS: Final = (3, 5)  # utterances in a row
RULES: Final = SelfPlayRules(turns=10, context=5, rules="published")  # as published, and so are the beams
WRITING: Final = GenerationSettings(method="beam", beams=5, choice="priority")
_FORM: Final = 1  # of what is kept

Floats = NDArray[np.float64]


@dataclass(frozen=True, kw_only=True)
class SelfTalk:
    """The self-play of a network: figures of all replies together, and columns of single conversations."""

    bot: str
    figures: Mapping[str, float]
    columns: Mapping[str, Sequence[float]]
    ended_early: int

    def mean(self, column: str) -> float:
        """Return the mean of a column over the conversations where it is defined."""
        values = np.array(self.columns[column], np.float64)
        return float(np.nanmean(values)) if np.isfinite(values).any() else float("nan")


def talk_of(chain: Chain, trained: TrainedVariant, encoders: OpenEncoders, plan: TrainingPlan = USUAL) -> SelfTalk:
    """Play a network with itself and measure what it said; what was measured before is read."""
    inputs = {
        "vhred": trained.id,
        "rules": asdict(RULES),
        "writing": asdict(WRITING),
        "conversations": plan.conversations,
        "encoders": dict(encoders.details),
    }
    path = _kept(chain, inputs)
    if path.exists():
        stored: dict[str, Any] = read_json(path)
        return SelfTalk(**stored | {"columns": _with_nan(stored["columns"])})
    talk = _measured(chain, trained, encoders, plan.conversations)
    write_json(path, asdict(talk) | {"columns": _without_nan(talk.columns)})
    return talk


def _kept(chain: Chain, inputs: Mapping[str, Any]) -> Path:
    """Return the file for what is measured of these inputs."""
    folder = chain.home.cache / "reproduce" / "networks"
    make_folder(folder)
    return folder / f"{hash_of_inputs({'form': _FORM, **inputs})}.json"


def _measured(chain: Chain, trained: TrainedVariant, encoders: OpenEncoders, count: int) -> SelfTalk:
    chain.progress.stage(f"self-play of {trained.name}")
    vhred = open_vhred(chain.home, trained.spec, threads=chain.settings.threads)
    bot = GeneratingBot(vhred=vhred, settings=WRITING)
    played = play(bot, bot, [SelfPlayStart(number=number) for number in range(count)], RULES)
    conversations = [
        Conversation(
            id=f"{trained.name}/{each.start.number}",
            bot=trained.name,
            turns=tuple((Side.BOT, text) for text in each.replies),
            is_played=True,
        )
        for each in played
        if each.replies
    ]
    columns = conversation_columns(conversations, encoders.reader, HybridSettings(), chain.progress)
    replies = [text for each in played for text in each.replies]
    of_all = variety(replies, [encoders.reader.tokens(text) for text in replies])
    return SelfTalk(
        bot=trained.name,
        figures={
            **{name: float(figure) for name, figure in asdict(of_all).items()},
            **{f"overlap_{window}": _overlap(chain, played, window) for window in OVERLAPS},
        },
        columns={name: column.tolist() for name, column in columns.items()},
        ended_early=sum(bool(each.problem) for each in played),
    )


def _overlap(chain: Chain, played: Sequence[SelfPlayed], window: int) -> float:
    """Return the per cent of pairs of conversations that share so many utterances in a row."""
    with SharedWindows(chain.home.cache, window) as windows:
        for conversation in played:
            windows.add(utterance_hashes(conversation.replies))
        return windows.overlap().percent


def _without_nan(columns: Mapping[str, Sequence[float]]) -> dict[str, list[float | None]]:
    return {name: [None if np.isnan(number) else number for number in column] for name, column in columns.items()}


def _with_nan(columns: Mapping[str, Sequence[float | None]]) -> dict[str, list[float]]:
    return {name: [np.nan if number is None else number for number in column] for name, column in columns.items()}


@dataclass(frozen=True, eq=False, kw_only=True)
class PeopleFit:
    """The hybrid metric as people's conversations with other bots gave it, for the self-play of these networks."""

    columns: Sequence[str]
    weights: ColumnWeights
    conversations: int
    bots: int

    @classmethod
    def of(cls, chain: Chain, request: EncoderRequest, encoders: OpenEncoders) -> PeopleFit | None:
        """Fit it to the conversations of the study, or read what was fitted before; None where the data has none."""
        study = chain.settings.data / "dialogues" / f"{STUDY}.jsonl.gz"
        if not study.is_file():
            return None
        settings = HybridSettings(seed=chain.settings.seed)
        inputs = {"study": sha256_of(study), "encoders": dict(encoders.details), "fit": settings.as_manifest()}
        path = _kept(chain, inputs)
        if path.exists():
            stored: dict[str, Any] = read_json(path)
            return cls(**stored | {"weights": ColumnWeights.read(stored["weights"])})
        talks = [entry for entry in read_conversations(study) if isinstance(entry, Conversation)]
        table = measure(chain.home, talks, request, settings, None, chain.progress).table
        weights = ColumnWeights.of(table.matrix(table.components), table.ratings, settings.ridge)
        fit = cls(columns=table.components, weights=weights, conversations=len(talks), bots=len(table.names))
        write_json(path, vars(fit) | {"weights": weights.as_json()})
        return fit

    def scores(self, talks: Sequence[SelfTalk]) -> list[float]:
        """Return the mean score of each bot's conversations; they are compared with each other, not with people's."""
        features = [np.stack([np.array(talk.columns[name]) for name in self.columns], axis=1) for talk in talks]
        centre = column_means(np.concatenate(features))
        return [float(self.weights.scores(rows, centre).mean()) for rows in features]
