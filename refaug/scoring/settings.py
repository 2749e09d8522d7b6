"""The settings of finding and weighing references, of an evaluation, and of items without a reply, for every face.

Presets are settings that belong together as one switch, from the index to the score.

`TSUTA20` has the settings of the code that Tsuta et al. (2020) released: plain means of word vectors, 13 retrieved
references beside the gold and the parrot, all of them rated, and BLEU with floored credits and without smoothing
(docs/bleu.md). `REFAUG_1` has what the recommended metric scores against: 50 references that its encoder finds, each of
weight 1.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Final, Literal, Self

from refaug.core.errors import Usage
from refaug.core.options.declaring import Doc, Ge, Le, Length, Metavar, Panel, Signed
from refaug.core.options.decoding import Options, as_values, decode
from refaug.core.options.describing import options_of
from refaug.core.processes.kept import cached_property
from refaug.core.records import Item
from refaug.indexer.search.search_settings import SearchSettings
from refaug.rater.rating_settings import RatingSettings

if TYPE_CHECKING:
    from refaug.indexer.manifest import IndexManifest


PresetName = Literal["tsuta20", "refaug-1"]
_LEAVE_ONE_OUT: Final = "leave one of the two out"


@dataclass(frozen=True, kw_only=True)
class Preset:
    """Settings that go together; each part has the names and values that commands and requests have."""

    name: PresetName
    sentence: Mapping[str, Any]  # of an index: how words make the vector of a sentence
    references: Mapping[str, Any]  # as AugmentSettings takes them
    metrics: tuple[str, ...]  # those that it is for; the first is the default with it
    metric: Mapping[str, str]  # their parameters

    def complete(self, part: Mapping[str, Any], stated: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return the stated settings with those of a part of the preset; Usage where one contradicts it."""
        for name, setting in stated.items():
            if name in part and setting != part[name]:
                raise Usage(self._contradiction(name, setting, part[name]), remedy=_LEAVE_ONE_OUT)
        return {**stated, **part}

    def specification(self, text: str) -> str:
        """Return the specification of a metric with the preset's parameters; metrics that it is not for stay."""
        from refaug.metrics.specification import Specification  # noqa: PLC0415  compiles

        parsed = Specification.parse(text)
        if parsed.name not in self.metrics:
            return text
        return str(Specification(parsed.name, tuple(self.complete(self.metric, dict(parsed.parameters)).items())))

    def specifications(self, texts: Iterable[str]) -> list[str]:
        """Return several specifications with the preset's parameters."""
        return [self.specification(text) for text in texts]

    def require_effect(self, texts: Iterable[str]) -> None:
        """Raise Usage where no specification names a metric that the preset has parameters of."""
        if not any(text.partition(":")[0].strip() in self.metrics for text in texts):
            raise Usage(f"preset {self.name} without a metric that it sets", remedy=f"the metric {self.metrics[0]}")

    def require_index(self, index: str, manifest: IndexManifest) -> None:
        """Raise Usage where an index makes other vectors of sentences than the preset."""
        logs = " ".join(log.name for log in manifest.logs)
        if not self.sentence:
            _require_encoder(index, manifest, logs)
            return
        remedy = f"refaug index build {logs} --name NAME --preset {self.name}"
        if manifest.vectors.kind != "words":
            message = f"the index {index} has vectors of an encoder, and preset {self.name} has means of word vectors"
            raise Usage(message, remedy=remedy)
        for name, setting in self.sentence.items():
            if (built := getattr(manifest.sentence, name)) != setting:
                message = f"the index {index} was built with {self._contradiction(name, built, setting)}"
                raise Usage(message, remedy=remedy)

    def require_items(self, items: Iterable[object]) -> None:
        """Raise Usage where references of items were retrieved or rated in another way; given references are fine."""
        from refaug.metrics.signature import read_fields  # noqa: PLC0415  numpy

        for line in {item.provenance for item in items if isinstance(item, Item) and item.provenance}:
            short, details = read_fields(line.split("|"), line)
            for name, setting in self._fields.items():
                if (stated := short.get(name, details.get(name, ""))) != setting:
                    message = f"the references of the items have {self._contradiction(name, stated, setting)}"
                    raise Usage(
                        message, remedy=f"refaug sets references --preset {self.name} writes items with such references"
                    )

    def governs(self, metric: str, settings: Mapping[str, str], provenance: Mapping[str, str]) -> bool:
        """Whether a score is that of the preset, by the settings in its signature, however these were stated."""
        return (
            metric in self.metrics
            and all(settings.get(name) == setting for name, setting in self.metric.items())
            and all(provenance.get(name, "") == setting for name, setting in self._fields.items())
        )

    @cached_property
    def _fields(self) -> dict[str, str]:
        """The settings of references as the provenance of items writes them."""
        references, sentence = self.references, self.sentence
        fields = {name: str(setting) for name, setting in references.items() if name != "calibrated"}
        if not sentence:
            return fields
        return {
            **fields,
            "cal": "cal" if references["calibrated"] else "raw",
            "norm-words": "yes" if sentence["norm_words"] else "no",
            "oov": str(sentence["oov"]),
            "weighting": str(sentence["weighting"]),
        }

    def _contradiction(self, name: str, stated: object, own: object) -> str:
        return f"{name}={stated}, which contradicts preset {self.name}: it has {name}={own}"


# `-size 15` of the released code means 15 lines: the parrot, the gold, and 13 retrieved references.
TSUTA20: Final = Preset(
    name="tsuta20",
    sentence={"norm_words": True, "oov": "unk", "weighting": "mean"},
    references={
        "k": 13,
        "mode": "embedding-utterance",
        "gold": "rated",
        "parrot": "rated",
        "weights": "rated",
        "combine": "first",
        "calibrated": False,
    },
    metrics=("upsilon-bleu", "delta-bleu"),
    metric={"n": "2", "variant": "tsuta20", "smooth": "none", "bp": "closest", "eff": "no"},
)
REFAUG_1: Final = Preset(
    name="refaug-1",
    sentence={},
    references={"k": 50, "mode": "encoder-utterance", "parrot": "off", "weights": "one"},
    metrics=("refaug-1",),
    metric={},
)
PRESETS: Final[Mapping[str, Preset]] = {preset.name: preset for preset in (TSUTA20, REFAUG_1)}


def _require_encoder(index: str, manifest: IndexManifest, logs: str) -> None:
    """Raise Usage where an index does not have the vectors of an encoder; the metric says which one it needs."""
    from refaug.metrics.embeddings.recommended import OTHER_METRIC, own_calibration  # noqa: PLC0415  numpy

    name, vectors = own_calibration().encoder.partition("#")[0], manifest.vectors
    if vectors.kind != "encoder":
        raise Usage(
            f"refaug-1, the metric where none is named, finds references by the encoder {name}, and the index {index} "
            f"has vectors of {vectors.name}",
            remedy=f"refaug index encoder add {name}, then refaug index build {logs} --name NAME --encoder {name}; "
            f"{OTHER_METRIC}",
        )


def preset_for(metrics: Iterable[str]) -> PresetName | None:
    """Return the preset without which one of the metrics would be another: that of the recommended metric."""
    names = {text.partition(":")[0].strip() for text in metrics}
    return REFAUG_1.name if names & set(REFAUG_1.metrics) else None


def find_preset(name: str | None) -> Preset | None:
    """Return the preset of this name, or None without a name; Usage where there is none."""
    if name is None:
        return None
    if name not in PRESETS:
        raise Usage(f"there is no preset {name!r}", remedy=f"one of: {', '.join(PRESETS)}")
    return PRESETS[name]


def preset_of(metric: str, settings: Mapping[str, str], provenance: Mapping[str, str]) -> str | None:
    """Return the name of the preset that a score's settings are those of, for its signature."""
    return next((name for name, preset in PRESETS.items() if preset.governs(metric, settings, provenance)), None)


_IN_DIALOG_MODES: Final = ("alpha", "epsilon")
OF_RATINGS: Final = ("combine", "calibrated")
_UTTERANCE: Final = "utterance"  # what a mode without responses ends in


@dataclass(frozen=True, kw_only=True)
class AugmentSettings(SearchSettings, RatingSettings):
    """How references are found, rated and weighed; what can change them goes into signatures.

    Modes and exclusions: docs/indexes.md; ratings and weights: docs/raters.md.
    """

    panel: ClassVar[Panel] = Panel("Retrieval", rare=("preset", "gold", "parrot", "weights", "show_excluded"))

    preset: Annotated[
        PresetName | None,
        Metavar("NAME"),
        Doc(
            "tsuta20: every setting, and weighted BLEU, as in the code of Tsuta et al. (2020); refaug-1: what the "
            "recommended metric is scored against, which that metric has by itself."
        ),
    ] = None
    gold: Annotated[
        Literal["one", "rated", "none"],
        Doc("What a gold weighs: 1, or what the rater says; none: golds play no part."),
        Signed(is_short=True),
    ] = "one"
    parrot: Annotated[
        Literal["rated", "off"] | Annotated[float, Ge(-1), Le(1)],
        Doc("The utterance itself as a reference: rated, off, or its weight from -1 to 1 (docs/gaming.md)."),
        Signed(is_short=True),
    ] = "off"
    weights: Annotated[
        Literal["rated", "one"],
        Doc("What references that are found weigh; one needs no rater for them."),
        Signed(is_short=True),
    ] = "rated"

    show_excluded: Annotated[int, Ge(0), Le(200), Doc("How many left-out pairs to return, with reasons.")] = 0

    def check(self) -> None:
        """Take over the settings of the preset, and refuse settings that contradict it or each other."""
        if (preset := find_preset(self.preset)) is not None:
            stated = {name: getattr(self, name) for name in self.stated}
            for name, setting in preset.complete(preset.references, stated).items():
                object.__setattr__(self, name, setting)
        super().check()
        if self.gold == "none" and self.is_dialog:
            raise Usage(
                f"none with mode={self.mode}, which compares responses with the gold",
                remedy=f"mode={self.mode.removesuffix('dialog')}{_UTTERANCE}, or another gold",
                field="gold",
            )

    def with_preset(self, preset: PresetName) -> Self:
        """Return the settings that were stated with those of a preset; Usage where they contradict it."""
        if self.preset not in (None, preset):
            raise Usage(f"preset {self.preset}, and the metric {preset}", remedy="leave one of the two out")
        values, options = as_values(self), options_of(type(self))
        stated = {option.spelling: values[option.spelling] for option in options if option.name in self.stated}
        return decode(type(self), {**stated, "preset": preset})

    def require_effect(self, *, rates: bool = False, shows_references: bool = False) -> None:
        """Raise Usage where a setting changes nothing with the others.

        `rates`: the rater is asked about something else, so its settings have an effect in any case.
        """
        if not shows_references:
            self._require_defaults("show_excluded", remedy="leave it out: it is for references, which are shown")
        if not self.is_dialog:
            self._require_defaults(*_IN_DIALOG_MODES, remedy="leave it out, or use a dialog mode")
        if not (self.needs_rater or rates):
            self._require_defaults(*OF_RATINGS, remedy="leave it out, or use rated weights")

    def require_no_effect(self, why: str, *, remedy: str, rates: bool = False, scores: bool = False) -> None:
        """Raise Usage for a setting that was stated where no references are found, which is `why`.

        With `rates` the rater rates replies in any case, with `scores` a preset is for the metric in any case.
        """
        allowed = {*(OF_RATINGS if rates else ()), *(("preset",) if scores else ())}
        idle = [option.name for option in options_of(type(self)) if option.name in self.stated - allowed]
        if idle:
            raise Usage(f"it has no effect {why}", remedy=remedy, field=idle[0])

    @property
    def idle(self) -> frozenset[str]:
        """The settings that change nothing with the others."""
        return frozenset((() if self.is_dialog else _IN_DIALOG_MODES) + (() if self.needs_rater else OF_RATINGS))

    def _require_defaults(self, *names: str, remedy: str) -> None:
        if changed := [name for name in names if getattr(self, name) != getattr(type(self), name)]:
            raise Usage("it has no effect with these settings", remedy=remedy, field=changed[0])

    @property
    def needs_rater(self) -> bool:
        """Whether any reference is rated."""
        return "rated" in (self.gold, self.parrot, self.weights)

    def require_rater(self, rater: object | None) -> None:
        """Raise Usage where something is to be rated and there is no rater."""
        if self.needs_rater and rater is None:
            raise Usage(
                "references are to be rated, and no rater is named",
                remedy="name a rater, or the preset refaug-1, or the weights one, which need none",
                field="rater",
            )


MAX_DRAWS: Final = 1_000_000
MIN_CONFIDENCE, MAX_CONFIDENCE = 0.5, 0.9999
MAX_SEED: Final = 2**32 - 1
Draws = Annotated[int, Ge(0), Le(MAX_DRAWS), Doc("Draws of the bootstrap; 0: no intervals.")]
Confidence = Annotated[float, Ge(MIN_CONFIDENCE), Le(MAX_CONFIDENCE), Doc("Of the intervals.")]
ResamplingSeed = Annotated[int, Ge(0), Le(MAX_SEED), Doc("Of the resampling.")]


@dataclass(frozen=True, kw_only=True)
class Resampling(Options):
    """Intervals and comparisons."""

    panel: ClassVar[Panel] = Panel("Statistics", rare=("confidence", "seed"))

    draws: Draws = 1_000
    confidence: Confidence = 0.95
    seed: ResamplingSeed = 1
    baseline: Annotated[
        str | None, Length(1, 200), Metavar("SYSTEM"), Doc("The system that every other one is compared with.")
    ] = None

    def check(self) -> None:
        """Refuse what is of intervals where there are none."""
        super().check()
        changed = [
            name for name in ("baseline", "confidence", "seed") if getattr(self, name) != getattr(type(self), name)
        ]
        if changed and not self.draws:
            raise Usage("it has no effect without draws", remedy="1000 draws, or leave it out", field=changed[0])

    def resampling(self) -> dict[str, object]:
        """Return how intervals are computed, as JSON."""
        return {
            "method": "percentile bootstrap over items",
            "draws": self.draws,
            "confidence": self.confidence,
            "seed": self.seed,
            **({"baseline": self.baseline} if self.baseline is not None else {}),
        }


@dataclass(frozen=True, kw_only=True)
class ScoreSettings(Resampling):
    """The settings of an evaluation beside the metrics."""

    panel: ClassVar[Panel] = Panel("Output", rare=("require_passport",))

    explain: Annotated[
        bool, Doc("Say which n-grams are credited to which reference, and what scores are without each reference.")
    ] = False
    percent: Annotated[bool, Doc("Scores of metrics from 0 to 1 times 100; others stay as they are.")] = False
    require_passport: Annotated[
        bool, Doc("Refuse the metric judge unless a passport holds for its judge, rubric and settings.")
    ] = False


class RowsChoice(StrEnum):
    """Which rated replies count."""

    FAIR = "fair"  # without replies that are one of their golds; references identical to the reply do not count
    ALL = "all"  # every rated reply, against every reference


@dataclass(frozen=True, kw_only=True)
class MetaSettings(Options):
    """How agreement is measured."""

    panel: ClassVar[Panel] = Panel("Statistics", rare=("confidence", "seed", "min_kappa"))

    rows: Annotated[
        RowsChoice,
        Doc(
            "fair: no replies that are one of their own golds, and no references identical to the reply; all: every "
            "rated reply against every reference."
        ),
    ] = RowsChoice.FAIR
    draws: Annotated[int, Ge(1), Le(MAX_DRAWS), Doc("Draws of the bootstrap over contexts.")] = 10_000
    seed: ResamplingSeed = 1
    confidence: Confidence = 0.95
    min_kappa: Annotated[
        float | None,
        Ge(-1),
        Le(1),
        Metavar("X"),
        Doc("Leave out annotators whose mean κ with the others is lower."),
    ] = None


class WithoutReply(StrEnum):
    """Write it without that reply and warn, refuse it, or leave it out and warn."""

    REPORT = "report"
    REFUSE = "refuse"
    SKIP = "skip"
