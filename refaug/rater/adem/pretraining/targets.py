"""What teachers say of the turns of coded dialogues, as the network reads them: cut, and as their pieces spell them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any, Final, NamedTuple, Protocol, runtime_checkable

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from refaug.core.array_files import write_array
from refaug.core.errors import BadInput, Corrupt, Usage
from refaug.core.files import write_aside
from refaug.core.text.sentencepiece_tokenizer import SentencePieceTokenizer
from refaug.rater.adem.pretraining.dialogues import (
    LEAST_DIALOGUES,
    CodedDialogues,
    DialogueWindows,
    WindowBatch,
    WindowSettings,
    require_both_sides,
)
from refaug.rater.adem.teachers.meaning import FILE as DIRECTIONS
from refaug.rater.adem.teachers.teacher import Teacher
from refaug.rater.adem.vhred.conversation_sizes import (
    EMOTION_HIDDEN,
    EMOTION_WEIGHT,
    HEAD_DEFAULTS,
    ConversationSizes,
)
from refaug.rater.adem.vhred.encoder import Numbers
from refaug.rater.adem.vhred.heads import HeadTargets, InputHeads, Values
from refaug.rater.adem.vhred.sizes import VhredConfig
from refaug.rater.training.order import Training

_HEADS: Final = ("emotion", "meaning")
_ROWS: Final = "target_rows.npy"
_AT_ONCE: Final = 4_096  # texts


@dataclass(frozen=True, kw_only=True)
class TeacherChoice:
    """A teacher as an order names it."""

    spec: str
    id: str  # what decides its targets before it is fitted, with hashes


@dataclass(frozen=True, kw_only=True)
class HeadOrder:
    """The heads of a network: their teachers, sizes and weights in the loss; without teachers, none."""

    emotion: TeacherChoice | None = None
    meaning: TeacherChoice | None = None
    emotion_weight: float = EMOTION_WEIGHT
    meaning_weight: float = HEAD_DEFAULTS["vhred"].meaning_weight
    emotion_hidden: int = EMOTION_HIDDEN
    meaning_hidden: int = HEAD_DEFAULTS["vhred"].meaning_hidden
    is_emotion_positive: bool = True
    is_shuffled: bool = False  # a control: each turn has the targets of another one
    are_input: bool = False  # they predict from the turn alone, and the context is told, without gradients

    def __post_init__(self) -> None:
        for name in _HEADS:
            chosen = getattr(self, name)
            if isinstance(chosen, Mapping):  # as an order is stored
                object.__setattr__(self, name, TeacherChoice(**chosen))
            if not 0 <= (weight := getattr(self, f"{name}_weight")) < float("inf"):
                raise Usage(f"a weight of {weight} of the {name} head", remedy="0 or more")

    @property
    def names(self) -> tuple[str, ...]:
        """The heads that there are."""
        return tuple(name for name in _HEADS if getattr(self, name) is not None)

    @property
    def weights(self) -> tuple[float, float]:
        """The weights of emotion and meaning in the loss."""
        return self.emotion_weight, self.meaning_weight

    def of(self, config: VhredConfig, sizes: Mapping[str, int]) -> VhredConfig:
        """Return a network's sizes with its heads, for the sizes of the targets by head."""
        hidden = {f"{name}_hidden": getattr(self, f"{name}_hidden") for name in sizes}
        settings = {"is_emotion_positive": self.is_emotion_positive, "are_heads_input": self.are_input}
        return replace(config, **sizes, **hidden, **settings)  # type: ignore[arg-type]

    def inputs(self) -> dict[str, object]:
        """Return what determines a network: teachers by what decides their targets, not by where they lie."""
        settings = {name: setting for name, setting in vars(self).items() if name not in _HEADS}
        if not self.are_input:
            del settings["are_input"]
        return {**settings, **{name: getattr(self, name).id for name in self.names}} if self.names else {}


# Opens a teacher by its specification; one that has to be fitted is fitted to the texts.
OpenTeacher = Callable[[str, Sequence[str]], Teacher]


class TeacherOpeners(NamedTuple):
    """What opens the teachers of both heads."""

    emotion: OpenTeacher
    meaning: OpenTeacher


def _no_teacher(spec: str, _texts: Sequence[str]) -> Teacher:
    """Raise Usage: nothing here opens teachers."""
    raise Usage(f"nothing here can open the teacher {spec}", remedy="train without heads")


NO_TEACHERS: Final = TeacherOpeners(_no_teacher, _no_teacher)


@runtime_checkable
class _Fitted(Protocol):
    """A teacher that was fitted to texts, and is stored beside the network."""

    def save(self, folder: Path) -> None:
        """Write what was fitted."""


@dataclass(frozen=True, eq=False, kw_only=True)
class TurnTargets:
    """Targets of all turns of coded dialogues: those of each distinct text, and the text of each turn."""

    rows: NDArray[np.int64]
    emotion: Values | None = None
    meaning: Values | None = None
    weights: tuple[float, float] = (EMOTION_WEIGHT, HEAD_DEFAULTS["vhred"].meaning_weight)  # in the loss

    def of(self, turns: Numbers) -> HeadTargets:
        """Return the targets of some turns."""
        rows = self.rows[turns]
        return HeadTargets(*(None if values is None else values[rows] for values in (self.emotion, self.meaning)))


def write_targets(
    dialogues: CodedDialogues,
    is_training: NDArray[np.bool_],
    tokenizer: SentencePieceTokenizer,
    order: HeadOrder,
    openers: TeacherOpeners,
    folder: Path,
    seed: int,
) -> Mapping[str, Any]:
    """Ask the teachers about every distinct turn, and write what they say; return their names and sizes.

    Teachers are fitted to the turns of the dialogues that are trained on.
    """
    places = dict[str, int]()
    decoded = (tokenizer.decode_ids(dialogues.turn(turn).tolist()) for turn in range(len(dialogues.start) - 1))
    rows = np.fromiter((places.setdefault(text, len(places)) for text in decoded), np.int64)
    texts, learned = list(places), np.repeat(is_training, np.diff(dialogues.first))
    fitted_to = [texts[row] for row in np.unique(rows[learned])]
    facts = dict[str, object]()
    for name in order.names:
        teacher = getattr(openers, name)(getattr(order, name).spec, fitted_to)
        with write_aside(folder / f"{name}_targets.npy") as file:
            header = {"descr": "<f4", "fortran_order": False, "shape": (len(texts), teacher.size)}
            np.lib.format.write_array_header_1_0(file, header)
            for begin in range(0, len(texts), _AT_ONCE):
                asked = texts[begin : begin + _AT_ONCE]
                values = np.ascontiguousarray(teacher.targets(asked), "<f4")
                _require_targets(values, teacher, name, len(asked))
                file.write(values.data)
        if isinstance(teacher, _Fitted):
            teacher.save(folder)
        facts[name] = {"teacher": teacher.name, "size": teacher.size}
    if order.is_shuffled:
        rows = np.random.default_rng([seed, 7]).permutation(len(texts))[rows]
    write_array(folder / _ROWS, rows)
    return {"texts": len(texts), "is_shuffled": order.is_shuffled, **facts}


def _require_targets(values: Values, teacher: Teacher, name: str, count: int) -> None:
    wrong = None
    if values.shape != (count, teacher.size):
        wrong = f"numbers of shape {values.shape} for {count:,} texts and {teacher.size:,} numbers each"
    elif not np.isfinite(values).all():
        wrong = "numbers that are not finite"
    elif name == "emotion" and not (values.min() >= 0 and np.allclose(values.sum(axis=1), 1, atol=1e-3)):
        wrong = "rows that are no probabilities of classes"
    if wrong is not None:
        raise BadInput(f"the {name} teacher {teacher.name} gives {wrong}", remedy="name another teacher")


def open_targets(folder: Path, config: VhredConfig, order: HeadOrder) -> TurnTargets:
    """Map the targets that were written; BadInput for others than the network's heads predict."""
    try:
        rows = np.load(folder / _ROWS, allow_pickle=False)
        values = {
            name: np.load(folder / f"{name}_targets.npy", mmap_mode="r", allow_pickle=False) for name in order.names
        }
    except (OSError, ValueError, EOFError) as error:
        raise Corrupt(f"{folder}: {error}", remedy="remove the folder and train again") from error
    targets = TurnTargets(rows=rows, **values, weights=order.weights)
    require_sizes(config, targets)
    return targets


def require_sizes(config: VhredConfig, targets: TurnTargets) -> None:
    """Raise BadInput for targets of another size than a network's heads predict."""
    for name, size in (("emotion", config.emotion), ("meaning", config.meaning)):
        values = getattr(targets, name)
        found = 0 if values is None else values.shape[1]
        if found != size:
            raise BadInput(
                f"the {name} teacher gives {found:,} numbers of a turn, and the network's head predicts {size:,}",
                remedy="the teacher that the network learned from, or a network trained anew",
            )


def heads_loss(
    heads: InputHeads | None, contexts: Tensor, batch: WindowBatch, targets: TurnTargets | None
) -> Tensor | float:
    """Return the weighted losses of the heads on the inputs of a batch, from the contexts of all decoded turns."""
    if heads is None or targets is None:
        return 0.0
    emotion, meaning = heads.losses(input_contexts(contexts, batch), targets.of(batch.inputs))
    return targets.weights[0] * emotion + targets.weights[1] * meaning


def input_contexts(contexts: Tensor, batch: WindowBatch) -> Tensor:
    """Return the contexts after the turns that another turn follows."""
    return contexts[torch.from_numpy(~batch.is_first).to(contexts.device)]


def constant_losses(targets: TurnTargets, train: DialogueWindows, validation: DialogueWindows) -> tuple[float, float]:
    """Return the held-out losses of heads that always say the mean of the turns that they learned from."""
    texts = int(targets.rows.max(initial=-1)) + 1
    seen, held_out = (np.bincount(targets.rows[side.input_turns()], minlength=texts) for side in (train, validation))

    def mean(of_texts: Callable[[slice], NDArray[Any]], counts: NDArray[np.int64]) -> NDArray[np.float64]:
        parts = (slice(begin, begin + _AT_ONCE) for begin in range(0, texts, _AT_ONCE))
        return np.asarray(sum(counts[part] @ of_texts(part).astype(np.float64) for part in parts) / counts.sum())

    emotion = meaning = 0.0
    if (emotions := targets.emotion) is not None:
        logs = np.log(np.maximum(mean(lambda part: emotions[part], seen), 1e-12))
        emotion = -float(mean(lambda part: emotions[part] @ logs, held_out))
    if (meanings := targets.meaning) is not None:
        middle = mean(lambda part: meanings[part], seen)
        meaning = float(mean(lambda part: np.square(meanings[part] - middle).mean(axis=1), held_out))
    return emotion, meaning


# ── Heads as a part of a training ─────────────────────────────────────────────────────────────────────────────────────


class _TaughtOrder(Protocol):
    """Of the order of a training, what is needed here."""

    @property
    def heads(self) -> HeadOrder:
        """The heads."""

    @property
    def windows(self) -> WindowSettings:
        """Which windows are read."""


def teach(
    config: VhredConfig,
    dialogues: CodedDialogues,
    tokenizer: SentencePieceTokenizer,
    training: Training[Any],
    openers: TeacherOpeners,
) -> tuple[VhredConfig, TurnTargets | None]:
    """Return the sizes with those of the heads, and what these learn, written as a stage; without heads the sizes."""
    order: _TaughtOrder = training.order
    heads, windows = order.heads, order.windows
    if config.conversation and (short := dialogues_needed(dialogues, windows)):
        raise short
    require_both_sides(dialogues, windows)
    if not heads.names:
        return config, None

    def write() -> Mapping[str, Any]:
        training.progress.stage("asking the teachers")
        is_training = ~dialogues.held_out(windows.validation_share, windows.seed)
        return write_targets(dialogues, is_training, tokenizer, heads, openers, training.folder, windows.seed)

    facts = training.stages.run("targets", write)
    sized = heads.of(config, {name: int(facts[name]["size"]) for name in heads.names})
    return sized, open_targets(training.folder, sized, heads)


def dialogues_needed(dialogues: CodedDialogues, windows: WindowSettings) -> BadInput | None:
    """Return what is wrong with dialogues from which a conversation's variable is to be learned, if anything is."""
    long = int((np.diff(dialogues.first) >= windows.least_turns).sum())
    if long >= LEAST_DIALOGUES:
        return None
    return BadInput(
        f"{long:,} dialogues have {windows.least_turns} turns or more; {LEAST_DIALOGUES} are needed for a VHCR",
        remedy="give logs with longer dialogues, or train a VHRED: --network vhred",
    )


def with_directions(save: Callable[..., str], folder: Path) -> Callable[..., str]:
    """Return what writes a network's folder, and beside the network what its meaning teacher was fitted to be."""

    def write(to: Path, model: Any, tokenizer: Any, /, **facts: Any) -> str:
        beside = list(facts.pop("beside", ()))
        if (folder / DIRECTIONS).exists():
            with write_aside(to / DIRECTIONS) as file:
                file.write((folder / DIRECTIONS).read_bytes())
            beside.append(DIRECTIONS)
        return save(to, model, tokenizer, beside=beside, **facts)

    return write


_ADDED: Final = {
    "model": {each.name: each.default for each in fields(ConversationSizes)},
    "windows": {name: getattr(WindowSettings, name) for name in ("sentence_drop", "drop_by", "least_turns")},
}


def chosen_inputs(settings: Mapping[str, Any], heads: HeadOrder) -> dict[str, object]:
    """Return the settings that determine a network, without parts that it does not have.

    So a VHRED that was made before there were such parts is still known as made of the same inputs.
    """
    chosen: dict[str, object] = {name: setting for name, setting in settings.items() if name != "heads"}
    for record, defaults in _ADDED.items():
        chosen[record] = {name: value for name, value in settings[record].items() if defaults.get(name, ...) != value}
    return {**chosen, "heads": heads.inputs()} if heads.names else chosen
