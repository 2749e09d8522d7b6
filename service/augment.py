"""Retrieve, rate, weigh: test pairs in, the same with weighted references out; no HTTP here, and no printing."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final, Literal

from core.errors import Usage
from core.items import BadItem
from core.progress import Progress, Silent
from core.records import Item, Origin, Reference, TestPair
from indexer.index import ReferenceIndex
from indexer.queries import SearchSettings
from indexer.search import Retrieved
from rater.coverage import Coverage
from rater.rate import Candidate, Rater, RatingSettings, ToRate

Asked = Literal["one", "rated"]
_AT_ONCE: Final = 200  # test pairs: what is held in memory at a time


@dataclass(frozen=True, kw_only=True)
class AugmentSettings:
    """How references are found, rated and weighed; all of it goes into signatures."""

    search: SearchSettings = field(default_factory=SearchSettings)
    rating: RatingSettings = field(default_factory=RatingSettings)
    gold: Asked = "one"  # or what the rater gives it
    parrot: float | Literal["rated", "off"] = "rated"  # the utterance itself as a reference
    weights: Asked = "rated"  # "one" asks no rater for the retrieved

    def __post_init__(self) -> None:
        if self.gold not in ("one", "rated"):
            raise Usage(f"gold={self.gold!r} is not known", remedy="one or rated")
        if self.weights not in ("one", "rated"):
            raise Usage(f"weights={self.weights!r} is not known", remedy="one or rated")
        if isinstance(self.parrot, str) and self.parrot not in ("rated", "off"):
            raise Usage(f"parrot={self.parrot!r} is not known", remedy="rated, off, or a number from -1 to 1")
        if not isinstance(self.parrot, str) and not -1 <= self.parrot <= 1:
            raise Usage(f"a parrot of weight {self.parrot} is out of range", remedy="from -1 to 1")

    @property
    def needs_rater(self) -> bool:
        """Whether anything is rated."""
        return "rated" in (self.gold, self.parrot, self.weights)


@dataclass(frozen=True, kw_only=True)
class Augmented:
    """An item with its weighted references, what was excluded on the way, and why nothing was found."""

    item: Item
    excluded: Mapping[str, int]
    note: str = ""


def augment(
    items: Iterable[Item | BadItem],
    index: ReferenceIndex,
    rater: Rater | None,
    settings: AugmentSettings,
    progress: Progress | None = None,
) -> Iterator[Augmented | BadItem]:
    """Every item with further references, in the order given; what came as retrieved or parrot is found anew.

    An item without an utterance, or without a gold where one is needed, keeps the references that it came with. Test
    pairs in a language that the rater does not know are warned of at the end.
    """
    if settings.needs_rater and rater is None:
        raise Usage("something is to be rated, and there is no rater", remedy="give one, or weights of one")
    progress = progress or Silent()
    progress.stage("references", None, "items")
    coverage = Coverage()
    for batch in _batches(items):
        good = [one for one in batch if isinstance(one, Item)]
        if rater is not None and settings.needs_rater:
            coverage += rater.coverage([text for one in good for text in own_texts(one)])
        found = iter(_rated(seek(good, index, settings), rater, settings))
        for one in batch:
            yield next(found) if isinstance(one, Item) else one
        progress.advance(len(batch))
    if rater is not None and (told := rater.unfamiliar(coverage)) is not None:
        progress.warn(told)


def own_texts(item: Item) -> list[str]:
    """What the rater is given of the test pair itself."""
    golds = [one.text for one in item.pair.references if one.source is Origin.GOLD]
    return [item.pair.utterance or "", *golds]


def _batches(items: Iterable[Item | BadItem]) -> Iterator[list[Item | BadItem]]:
    batch = list[Item | BadItem]()
    for item in items:
        batch.append(item)
        if len(batch) == _AT_ONCE:
            yield batch
            batch = []
    if batch:
        yield batch


# In two steps, for whoever searches for many at once and rates them in pieces


@dataclass(frozen=True, kw_only=True)
class Sought:
    """An item with what was found for it, and what is still to be rated of it."""

    item: Item
    pair: TestPair
    found: Retrieved
    places: tuple[int, ...] = ()  # of the references to be rated
    asked: ToRate | None = None  # nothing, where nothing is to be rated or there is no gold to rate against

    def finished(self, ratings: Sequence[float] = ()) -> Augmented:
        """With the ratings of what was asked, in that order.

        Without what should have been rated and could not be: a reference without a weight would spoil the item.
        """
        references = list(self.pair.references)
        if self.asked is not None:
            for place, rating in zip(self.places, ratings, strict=True):
                references[place] = _weighed(references[place], rating, rating)
        kept = tuple(one for one in references if one.is_own or one.weight is not None)
        note = self.found.note or ("no_gold" if len(kept) < len(references) else "")
        pair = replace(self.pair, references=kept)
        return Augmented(item=replace(self.item, pair=pair), excluded=self.found.excluded, note=note)


def seek(items: Sequence[Item], index: ReferenceIndex, settings: AugmentSettings) -> list[Sought]:
    """Search for all of them at once."""
    found = index.search([item.pair for item in items], settings.search)
    return [_sought(item, one, settings) for item, one in zip(items, found, strict=True)]


def _sought(item: Item, found: Retrieved, settings: AugmentSettings) -> Sought:
    pair = _with_references(item.pair, found, settings)
    places = tuple(place for place, one in enumerate(pair.references) if _is_rated(one, settings))
    golds = tuple(one.text for one in pair.references if one.source is Origin.GOLD and one.text.strip())
    if not places or not golds or not (pair.utterance or "").strip():
        return Sought(item=item, pair=pair, found=found)
    candidates = tuple(_candidate(pair.references[place]) for place in places)
    asked = ToRate(utterance=pair.utterance or "", golds=golds, candidates=candidates)
    return Sought(item=item, pair=pair, found=found, places=places, asked=asked)


def _rated(found: Sequence[Sought], rater: Rater | None, settings: AugmentSettings) -> Iterator[Augmented]:
    """All of them rated at once."""
    asked = [one.asked for one in found if one.asked is not None]
    ratings = iter(rater.rate(asked, settings.rating) if rater is not None else ())
    return (one.finished(next(ratings) if one.asked is not None else ()) for one in found)


def _with_references(pair: TestPair, found: Retrieved, settings: AugmentSettings) -> TestPair:
    """Golds and what people supplied first, then the parrot, then what was found; weighted where no rater is asked."""
    own = tuple(_unrated(one) for one in pair.references if one.is_own)
    parrot = list[Reference]()
    if settings.parrot != "off" and pair.utterance is not None and pair.utterance.strip():
        weight = None if settings.parrot == "rated" else float(settings.parrot)
        parrot.append(Reference(text=pair.utterance, source=Origin.PARROT, weight=weight))
    weight = 1.0 if settings.weights == "one" else None
    retrieved = [_weighed(one, weight, None) for one in found.references] if weight is not None else found.references
    return replace(pair, references=(*own, *parrot, *retrieved))


def _weighed(one: Reference, weight: float | None, rating: float | None) -> Reference:
    """With this weight and rating; `replace` takes several times as long, and there are many."""
    return Reference(
        text=one.text, source=one.source, weight=weight, similarity=one.similarity, rating=rating, more=one.more
    )


def _unrated(own: Reference) -> Reference:
    """A gold without what an earlier run had the rater say of it; what people supplied as it is."""
    return replace(own, weight=None, rating=None) if own.source is Origin.GOLD else own


def _is_rated(reference: Reference, settings: AugmentSettings) -> bool:
    if reference.source is Origin.GOLD:
        return settings.gold == "rated"
    if reference.source is Origin.PARROT:
        return settings.parrot == "rated"
    return reference.source is Origin.RETRIEVED and settings.weights == "rated"


def _candidate(reference: Reference) -> Candidate:
    """With the utterance that it answered, where it was found; a gold answers the test utterance."""
    own = reference.more.get("utterance") if reference.source is Origin.RETRIEVED else None
    return Candidate(text=reference.text, utterance=own if isinstance(own, str) else None)


# What made them


def provenance(index: ReferenceIndex, rater: Rater | None, settings: AugmentSettings) -> dict[str, str]:
    """What both forms of a signature say of retrieval and rating."""
    said = {
        "k": str(settings.search.k),
        "mode": settings.search.mode,
        "gold": settings.gold,
        "parrot": settings.parrot if isinstance(settings.parrot, str) else _digits(settings.parrot),
        "weights": settings.weights,
    }
    if rater is not None and settings.needs_rater:
        said |= {"combine": settings.rating.combine, "cal": settings.rating.calibration}
    said["index"] = index.spec
    if rater is not None and settings.needs_rater:
        said["rater"] = rater.spec
    return said


def _digits(number: float) -> str:
    """As many as tell it from every other number, and no more."""
    return repr(float(number)).removesuffix(".0")


def provenance_details(index: ReferenceIndex, settings: AugmentSettings) -> dict[str, str]:
    """What the full form has beside that."""
    manifest, search = index.manifest, settings.search
    said: dict[str, Any] = {
        "vectors": f"{manifest.vectors.name}#{manifest.vectors.sha256[:12]}",
        "norm-words": "yes" if manifest.sentence.norm_words else "no",
        "oov": manifest.sentence.oov,
        "weighting": manifest.sentence.weighting,
        "index-tok": manifest.tokenizer,
        "depth": search.depth or "auto",
        "near": _digits(search.near),
        "near-tokens": search.near_tokens,
        "after": search.after.isoformat() if search.after else "",
        "before": search.before.isoformat() if search.before else "",
        "exclude-logs": ",".join(search.exclude_logs),
    }
    if search.is_dialog:
        said |= {"alpha": _digits(search.alpha), "epsilon": _digits(search.epsilon)}
    return {key: str(value) for key, value in said.items() if value != ""}
