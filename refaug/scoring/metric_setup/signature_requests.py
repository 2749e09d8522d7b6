"""What a signature asks for: the metric, and how references are retrieved and rated; and how two signatures differ."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final, Self

from refaug.core.errors import BadInput, Usage
from refaug.metrics.catalogue import find
from refaug.metrics.signature import Signature
from refaug.scoring.provenance import MIXED, Provenance
from refaug.scoring.settings import AugmentSettings

# Keys that say nothing of how a score was made beyond the others: the preset that the settings are those of.
_SILENT: Final = frozenset({"preset"})
_NOTHING: Final = "—"


@dataclass(frozen=True, kw_only=True)
class SignatureRequest:
    """A signature read back as what `refaug score` is asked for."""

    signature: Signature
    metric: str  # as a specification
    index: str | None = None  # name@version
    rater: str | None = None
    augmenting: AugmentSettings = field(default_factory=AugmentSettings)

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read a signature of either form; BadInput where it asks for what cannot be done."""
        signature = Signature.parse(text)
        info = find(signature.metric)
        own = {parameter.name for parameter in info.parameters}
        settings = {key: setting for key, setting in signature.settings.items() if key not in own}
        if settings.get("references", "").startswith(MIXED):
            raise BadInput(
                "the references of these scores were made in several ways, which the signature does not name",
                remedy="score the same items with --metric",
            )
        return cls(
            signature=signature,
            metric=str(signature.specification()),
            index=_without_content(settings.get("index")),
            rater=_without_content(settings.get("rater")),
            augmenting=_augment_settings(settings, signature) if "index" in settings else AugmentSettings(),
        )


def _augment_settings(settings: dict[str, str], signature: Signature) -> AugmentSettings:
    from refaug.scoring.provenance import settings_of_provenance  # noqa: PLC0415

    try:
        return settings_of_provenance(Provenance(settings=settings, details=signature.details))
    except (KeyError, ValueError, Usage) as error:
        raise BadInput(
            f"the signature says nothing usable of how references were found: {error}", remedy="copy the whole line"
        ) from error


def _without_content(spec: str | None) -> str | None:
    """Return `name@version` of `name@version#content`."""
    return None if spec is None else spec.partition("#")[0]


def specification_texts(texts: list[str] | tuple[str, ...]) -> list[str]:
    """Return specifications; a signature becomes that of its metric."""
    return [str(Signature.parse(text).specification()) if "|" in text else text for text in texts]


def unsearched_remedy(texts: Sequence[str], scores: Sequence[Signature] = ()) -> str | None:
    """Return what to do where a metric is a signature whose references an index gave, and `scores` have none of it.

    `--metric` takes the metric of a signature alone, so that nothing is searched.
    """
    signatures = [Signature.parse(text) for text in texts if "|" in text]
    searched = {score.metric for score in scores if "index" in score.settings}
    index = next(
        (
            signature.settings["index"]
            for signature in signatures
            if "index" in signature.settings and signature.metric not in searched
        ),
        None,
    )
    if index is None:
        return None
    return (
        f"--signature in place of --metric finds references in {_without_content(index)} as that score did; --metric "
        "takes the metric of a signature alone"
    )


@dataclass(frozen=True, kw_only=True)
class SignatureDifference:
    """A key that two signatures have different values for; an empty text where one of them lacks it."""

    key: str
    first: str
    second: str

    def __str__(self) -> str:
        return f"{self.key}: {self.first or _NOTHING} and {self.second or _NOTHING}"


def signature_differences(first: Signature, second: Signature) -> list[SignatureDifference]:
    """Return what differs, metric first; details only where both signatures are full ones."""
    return [
        SignatureDifference(key=key, first=before, second=now)
        for key, before, now in _compared(first, second)
        if before != now
    ]


def _compared(first: Signature, second: Signature) -> Iterator[tuple[str, str, str]]:
    yield "metric", first.metric, second.metric
    pairs = [(first.settings, second.settings)]
    if first.details and second.details:
        pairs.append((first.details, second.details))
    for before, now in pairs:
        for key in dict.fromkeys([*before, *now]):
            if key not in _SILENT:
                yield key, before.get(key, ""), now.get(key, "")
    yield "refaug", first.refaug, second.refaug
