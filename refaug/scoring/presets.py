"""Presets: settings that belong together as one switch, from the index to the score.

`TSUTA20` has the settings of the code that Tsuta et al. (2020) released: plain means of word vectors, 13 retrieved
references beside the gold and the parrot, all of them rated, and BLEU with floored credits and without smoothing
(docs/bleu.md). `REFAUG_1` has what the recommended metric scores against: 50 references that its encoder finds, each of
weight 1.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final, Literal

from refaug.core.errors import Usage
from refaug.core.records import Item

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
