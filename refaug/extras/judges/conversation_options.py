"""What makes a VHRED a HRED or a VHCR, and the heads that teachers teach: options of its pre-training."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, ClassVar, Literal

from refaug.core.errors import Usage
from refaug.core.options.declaring import Doc, Ge, Le, Lt, Panel
from refaug.core.options.decoding import made_of
from refaug.operations.operation import Text
from refaug.operations.training import Few, NetworkOptions

if TYPE_CHECKING:
    from refaug.rater.adem.pretraining.dialogues import WindowSettings
    from refaug.rater.adem.pretraining.targets import HeadOrder, TeacherChoice

_Weight = Annotated[float | None, Ge(0), Le(1e9)]


@dataclass(frozen=True, kw_only=True)
class ConversationOptions(NetworkOptions):
    """Which network is trained, and what its heads learn."""

    panel: ClassVar[Panel] = Panel(
        "Conversations and heads",
        rare=(
            "conversation",
            "drop_by",
            "emotion_weight",
            "meaning_weight",
            "emotion_hidden",
            "meaning_hidden",
            "heads_as",
        ),
    )

    network: Annotated[
        Literal["hred", "vhred", "vhcr"],
        Doc("hred: no latent variable; vhred: one of each turn; vhcr: one of the whole conversation too."),
    ] = "vhred"
    conversation: Annotated[
        int | None, Ge(1), Le(10_000), Doc("Size of a conversation's Gaussian in a vhcr; by default the preset's.")
    ] = None
    sentence_drop: Annotated[
        float | None, Ge(0), Lt(1), Doc("Share of turns that the context of a vhcr does not hear; by default 0.25.")
    ] = None
    drop_by: Annotated[
        Literal["turn", "place"],
        Doc("turn: each turn is drawn; place: one place of all dialogues, as in released code."),
    ] = "turn"
    emotion: Annotated[
        Text | None, Doc("Teacher of a head that predicts the last turn's emotion: vader, lexicon:FILE or onnx:FOLDER.")
    ] = None
    meaning: Annotated[
        Text | None, Doc("Encoder of the home that teaches a head the last turn's meaning: name or name@version.")
    ] = None
    emotion_weight: Annotated[_Weight, Doc("Of the mean cross-entropy, beside the sum of −log p; by default 25.")] = (
        None
    )
    meaning_weight: Annotated[
        _Weight, Doc("Of the mean squared error; by default 100,000 of a hred, 30,000 of a vhred, 25,000 of a vhcr.")
    ] = None
    emotion_hidden: Annotated[Few | None, Doc("Units of the emotion head; by default 128.")] = None
    meaning_hidden: Annotated[
        Few | None, Doc("Units of the meaning head; by default 128, with preset paper 4,000 of a hred or a vhcr.")
    ] = None
    emotion_logits: Annotated[
        Literal["positive", "any"], Doc("positive: after a ReLU, as in released code; any: without.")
    ] = "positive"
    heads_as: Annotated[
        Literal["loss", "input"],
        Doc("loss: they shape the context; input: they predict from the turn, and the context is only told."),
    ] = "loss"
    shuffled: Annotated[bool, Doc("Heads learn the targets of other turns, as a control.")] = False

    def conversation_size(self, preset: str, latent: int) -> int:
        """Return the size of a conversation's Gaussian; Usage where it does not go with the network."""
        from refaug.rater.adem.vhred.conversation_sizes import CONVERSATION_SIZES  # noqa: PLC0415

        if self.network == "vhcr":
            if not latent:
                raise Usage("a vhcr has a Gaussian of each turn", remedy="--network hred, or --latent with a size")
            return self.conversation or CONVERSATION_SIZES[preset]
        drop_by = None if self.drop_by == "turn" else self.drop_by
        of_conversation = {"conversation": self.conversation, "sentence_drop": self.sentence_drop, "drop_by": drop_by}
        for name, value in of_conversation.items():
            if value:
                raise Usage(f"{name}={value}: a {self.network} has no variable of the conversation", field=name)
        return 0

    def latent_size(self, latent: int | Literal["none"] | None, of_preset: int) -> int:
        """Return the size of a turn's Gaussian; Usage for one of a hred."""
        if self.network != "hred":
            return of_preset if latent is None else 0 if latent == "none" else latent
        if latent not in (None, "none", 0):
            raise Usage(f"latent={latent}: a hred has no latent variable", remedy="--network vhred")
        return 0

    @property
    def context_turns(self) -> int:
        """The turns of a context where none are named: with the reply ten of a vhcr, as in the released code."""
        from refaug.rater.adem.vhred.conversation_sizes import CONVERSATION_TURNS  # noqa: PLC0415

        return CONVERSATION_TURNS if self.network == "vhcr" else 3

    def windows(self, record: type[WindowSettings], **settings: int) -> WindowSettings:
        """Return which windows are read, and what is dropped of them."""
        from refaug.rater.adem.vhred.conversation_sizes import LEAST_TURNS, SENTENCE_DROP  # noqa: PLC0415

        if self.network != "vhcr":
            return made_of(record, self, sentence_drop=0.0, **settings)
        share = SENTENCE_DROP if self.sentence_drop is None else self.sentence_drop
        return made_of(record, self, sentence_drop=share, least_turns=LEAST_TURNS, **settings)

    def heads(self, preset: str, cell: str, latent: int, teachers: Mapping[str, TeacherChoice]) -> HeadOrder:
        """Return the heads, with the teachers that the face has opened; Usage where nothing learns from them."""
        from refaug.rater.adem.pretraining.targets import HeadOrder  # noqa: PLC0415  torch
        from refaug.rater.adem.vhred.conversation_sizes import EMOTION_HIDDEN, EMOTION_WEIGHT, HEAD_DEFAULTS  # noqa: PLC0415

        self._require_teachers(teachers)
        if teachers and cell == "random":
            raise Usage("a random network learns nothing from teachers", remedy="--cell ln-gru")
        defaults = HEAD_DEFAULTS[self.network if latent else "hred"]
        wide = defaults.meaning_hidden if preset == "paper" else EMOTION_HIDDEN
        return HeadOrder(
            emotion=teachers.get("emotion"),
            meaning=teachers.get("meaning"),
            emotion_weight=EMOTION_WEIGHT if self.emotion_weight is None else self.emotion_weight,
            meaning_weight=defaults.meaning_weight if self.meaning_weight is None else self.meaning_weight,
            emotion_hidden=self.emotion_hidden or EMOTION_HIDDEN,
            meaning_hidden=self.meaning_hidden or wide,
            is_emotion_positive=self.emotion_logits == "positive",
            is_shuffled=self.shuffled,
            are_input=self.heads_as == "input",
        )

    def _require_teachers(self, teachers: Mapping[str, TeacherChoice]) -> None:
        """Raise Usage for a setting of a head that nothing teaches."""
        of_emotion: dict[str, object] = {"emotion_weight": self.emotion_weight, "emotion_hidden": self.emotion_hidden}
        of_meaning: dict[str, object] = {"meaning_weight": self.meaning_weight, "meaning_hidden": self.meaning_hidden}
        of_emotion["emotion_logits"] = None if self.emotion_logits == "positive" else self.emotion_logits
        for head, settings in (("emotion", of_emotion), ("meaning", of_meaning)):
            for name, value in settings.items() if head not in teachers else ():
                if value is not None:
                    raise Usage(f"{name}={value} without a teacher of {head}", field=name)
        for name, is_set in (("shuffled", self.shuffled), ("heads_as", self.heads_as == "input")):
            if is_set and not teachers:
                raise Usage(f"{name} without a teacher", remedy="--emotion or --meaning", field=name)
