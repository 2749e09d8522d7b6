"""Verify a score file: compare what it names with what is at hand, score again, and compare the scores.

The order is that of the parts in the report: the file itself, the software, the versions that the signatures name, the
items that were given, and then for each metric its parameters, references and scores.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from refaug.core.errors import BadInput, Conflict, Corrupt, MissingPart, NotFound, RefaugError, Usage
from refaug.core.home import Settings
from refaug.core.progress import Progress, Silent
from refaug.core.records import Item, Origin
from refaug.core.version import VERSION
from refaug.metrics.metric_info import Uses
from refaug.metrics.models.model_kinds import ModelKind
from refaug.metrics.signature import Signature
from refaug.scoring.cases import evidence_of, split
from refaug.scoring.evaluate import evaluate
from refaug.scoring.items import BadItem
from refaug.scoring.metric_setup.metric_requests import resolve_files
from refaug.scoring.metric_setup.model_registry import FindFile, ModelRegistry
from refaug.scoring.metric_setup.scoring_steps import IndexOpener, bound_metrics, chosen_metrics, find_references
from refaug.scoring.metric_setup.signature_requests import SignatureRequest
from refaug.scoring.provenance import Provenance
from refaug.scoring.reference_sets.reference_set import ReferenceSet
from refaug.scoring.reference_sets.set_scores import join
from refaug.scoring.reference_sets.set_scores import score as score_against_set
from refaug.scoring.score_files.score_file import ScoreFile, StoredScores
from refaug.scoring.scores import Evaluation, MetricScores, percent
from refaug.scoring.spooled_items.item_collection import ItemCollection
from refaug.scoring.verification import artefact_parts, score_differences
from refaug.scoring.verification.artefact_parts import PartState, Verification, VerifiedPart

_PART: Final = "references"
_SHOWN: Final = 3


def references_part(
    stored: StoredScores,
    references: str,
    evidence: object,
    items: Sequence[Item],
    *,
    tolerance: float,
    scores_agree: bool,
    is_weighted: bool,
) -> VerifiedPart:
    """Compare the hash of all references and weights; where it differs, the evidence of each item.

    Ratings may differ in their last bits between batches and processors, and with them the hash: then the evidence of
    the file decides, and where it has none, whether the scores agree. The evidence belongs to metrics that look at
    weighted references (`is_weighted`): theirs has to agree even if the hash does.
    """
    before = stored.document.get("references")
    if before is None:
        return VerifiedPart.unchecked(_PART, "the file has no hash of them", stored.name)
    if before == references:
        listed = evidence if is_weighted and isinstance(evidence, Mapping) else {}
        if differences := list(_differences(listed, items, tolerance)):
            return VerifiedPart.differs(_PART, f"{_listed(differences)}, in the evidence of the file", stored.name)
        return VerifiedPart.holds(_PART, f"{references}: all texts and weights", stored.name)
    hashes = f"{before} in the file, {references} now"
    if not isinstance(evidence, Mapping) or not evidence:
        if scores_agree and tolerance > 1e-6:
            message = f"{hashes}, but the scores agree: ratings differ in their last bits between processors"
            return VerifiedPart.unchecked(_PART, message, stored.name)
        return VerifiedPart.differs(_PART, f"{hashes}: their texts or weights are not the same", stored.name)
    differences = list(_differences(evidence, items, tolerance))
    if differences:
        return VerifiedPart.differs(_PART, f"{hashes}; {_listed(differences)}", stored.name)
    if scores_agree and tolerance > 1e-6:
        message = f"equal within {tolerance:g} item by item ({hashes}: last bits of ratings)"
        return VerifiedPart.holds(_PART, message, stored.name)
    return VerifiedPart.differs(_PART, f"{hashes}: their texts are not the same, though their weights are", stored.name)


def _listed(differences: Sequence[str]) -> str:
    more = f", and {len(differences) - _SHOWN:,} more items" if len(differences) > _SHOWN else ""
    return f"{'; '.join(differences[:_SHOWN])}{more}"


def _differences(evidence: Mapping[str, Any], items: Sequence[Item], tolerance: float) -> Iterator[str]:
    """Yield what differs, one text an item."""
    by_id = {test_item.id: test_item for test_item in items}
    for name, before in evidence.items():
        if name not in by_id:
            yield f"item {name} is not among the items"
        elif isinstance(before, Mapping) and (words := _of_item(before, evidence_of(by_id[name]), tolerance)):
            yield f"item {name}: {words}"


def _of_item(before: Mapping[str, Any], now: Mapping[str, Any], tolerance: float) -> str:
    if before.get("references") != now["references"]:
        sources = f"{_sources(before)} in the file, {_sources(now)} now"
        return f"{before.get('references')} references in the file, {now['references']} now ({sources})"
    for field in ("weights", "similarities"):
        listed, again = before.get(field), now[field]
        if not isinstance(listed, list) or len(listed) != len(again):
            return f"its {field} are others"
        pairs = zip(listed, again, strict=True)
        distance = max((_distance(old, new) for old, new in pairs), default=0.0)
        if not distance <= tolerance:
            return f"its {field} differ by up to {distance:.3g}"
    return ""


def _sources(evidence: Mapping[str, Any]) -> str:
    sources = evidence.get("sources")
    return (
        ", ".join(f"{count} {name}" for name, count in sources.items()) if isinstance(sources, Mapping) else "unknown"
    )


def _distance(before: object, now: float | None) -> float:
    if before is None or now is None:
        return 0.0 if before is now else float("inf")
    return abs(before - now) if isinstance(before, int | float) else float("inf")


# ── Judge part ────────────────────

_NOT_STORED: Final = "judge_not_stored"


def judge_part(stored: StoredScores, now: MetricScores) -> VerifiedPart:
    """Say whether all answers are stored; `now` are the scores that the stored ones give."""
    name = stored.signature.settings["model"].partition("#")[0]
    lacking = sum(system.unscored.get(_NOT_STORED, 0) for system in now.systems.values())
    total = sum(len(system.ids) for system in now.systems.values())
    if lacking:
        message = (
            f"a judge's scores are not reproducible: it may answer otherwise now, and its answers to {lacking:,} of "
            f"{total:,} replies are not stored here, or never came"
        )
        return VerifiedPart.missing("judge", message, stored.name)
    message = f"{name}: all answers are stored, and the scores are computed from them; the judge itself was not asked"
    return VerifiedPart.holds("judge", message, stored.name)


# ── Verify a score file ───────────────────────────────────────────────────────────────────────────────────────────────

Items = Sequence[Item | BadItem]
_JUDGE: Final = "judge"
_ENDINGS: Final = re.compile(r"\.(txt|bin|vec|model|onnx|toml|json)$")


@dataclass(frozen=True, kw_only=True)
class Workplace:
    """Where scores are made again: the models of a home, and who opens the versions of references."""

    models: ModelRegistry  # finds the files that signatures name, too
    open_index: IndexOpener | None = None  # None: index and rater are opened for the verification

    @property
    def home(self) -> Settings:
        """The home where versions are looked for."""
        return self.models.home


def files_in(folder: Path) -> FindFile:
    """Return a function that finds the files that signatures name in a folder, whatever their ending."""

    def find(spec: str) -> Path:
        name = spec.partition("#")[0]
        for path in sorted(folder.iterdir()) if folder.is_dir() else ():
            if name in (path.name, _ENDINGS.sub("", path.name.removesuffix(".gz"))):
                return path
        raise NotFound(f"there is no file {name} in {folder}", remedy="--files FOLDER, where it lies")

    return find


def verify(file: ScoreFile, items: Items, workplace: Workplace, progress: Progress | None = None) -> Verification:
    """Verify a file with the items and replies that it was made of."""
    return Verification(parts=tuple(_Verifying(file, workplace, progress or Silent()).parts(items)))


def searched_request(file: ScoreFile, items: Items) -> SignatureRequest | None:
    """Return the request of the signatures if an index is to be searched; None if references came with the items.

    They came with a frozen set, or with items that say that their references were made as the signature says.
    """
    of_index = [scores for scores in file.scores if "index" in scores.signature.settings]
    if file.set_id is not None or not of_index:
        return None
    requests = [SignatureRequest.parse(scores.signature.full) for scores in of_index]
    first = requests[0]
    if any((each.index, each.augmenting) != (first.index, first.augmenting) for each in requests):
        raise BadInput(
            "the metrics of the file have references from several indexes or settings",
            remedy="verify the outputs of single commands",
        )
    lines = {item.provenance for item in items if isinstance(item, Item)}
    has_found = any(_has_found_references(test_item) for test_item in items if isinstance(test_item, Item))
    of_items = Provenance.of_lines(lines).settings
    if not has_found or not of_items:
        return first
    return None if all(first.signature.settings.get(key) == text for key, text in of_items.items()) else first


class _Verifying:
    """One verification on its way through the parts."""

    def __init__(self, file: ScoreFile, workplace: Workplace, progress: Progress) -> None:
        self.file, self.workplace, self.home, self.progress = file, workplace, workplace.home, progress
        self.set: ReferenceSet | None = None

    def parts(self, items: Items) -> Iterator[VerifiedPart]:
        """Yield the parts in the order of the report."""
        yield _file_part(self.file)
        yield score_differences.software_part(self.file.scores, VERSION)
        if self.file.set_id is not None:
            part, self.set = artefact_parts.set_part(self.home, self.file.set_id, self.progress)
            yield part
        searched = searched_request(self.file, items)
        absent = dict[str, str]()  # name@version#content of what the scores need → which part it is
        for part, spec, is_needed in self._artefact_parts(is_searched=searched is not None):
            yield part
            if is_needed and part.state in (PartState.DIFFERS, PartState.MISSING):
                absent.setdefault(spec, part.part)
        if self.set is not None:
            try:
                items = join(self.set, items, progress=self.progress)
            except BadInput as error:
                yield VerifiedPart.differs("replies", error.message)
                return
            if words := _partial_words(self.file, items):
                yield VerifiedPart.missing("items", words)
                return
        if self.set is not None or self.file.set_id is None:
            yield from self._item_parts(items)
        yield from self._metric_parts(items, searched, absent)

    def _obstacle(self, stored: StoredScores, absent: Mapping[str, str], *, is_searched: bool) -> str | None:
        """Return why the scores of a metric cannot be made again; None where all that they need is at hand."""
        settings = stored.signature.settings
        if self.file.set_id is not None and self.set is None:
            return f"the frozen set {self.file.set_id} is not at hand as it was"
        needed = [spec for _, spec in self._models_of(stored)]
        if is_searched:  # else the references came with the items
            needed += [settings[kind] for kind in ("index", "rater") if kind in settings]
        return next((f"the {absent[spec]} is not at hand as it was" for spec in needed if spec in absent), None)

    # ── what the signatures name ─────────────────────────────────────────────────────────────────────────────────

    def _artefact_parts(self, *, is_searched: bool) -> Iterator[tuple[VerifiedPart, str, bool]]:
        """Yield a part for each artefact that a signature names, its name there, and whether the scores need it.

        Vectors and logs have the name of the index that they belong to.
        """
        specs = dict[tuple[str, str], bool]()  # kind and name@version#content → whether the scores need it
        for stored in self.file.scores:
            settings = stored.signature.settings
            if "index" in settings:
                specs["index", settings["index"]] = is_searched
            if "rater" in settings:
                specs.setdefault(("rater", settings["rater"]), is_searched)
            for model in self._models_of(stored):
                specs[model] = True
        for (kind, spec), is_needed in specs.items():
            self.progress.stage(f"read {kind} {spec.partition('#')[0]}")
            yield (
                artefact_parts.artefact_part(self.home, kind, spec, is_needed=is_needed, progress=self.progress),
                spec,
                is_needed,
            )
            if kind == "index":
                for part in (self._vectors_part(spec, is_needed), artefact_parts.log_part(self.home, spec)):
                    if part is not None:
                        yield part, spec, is_needed

    def _models_of(self, stored: StoredScores) -> list[tuple[str, str]]:
        """Return what a metric needs, and what the metrics of a fitted judge need."""
        models = artefact_parts.models_of(stored.signature)
        judge = next((spec for kind, spec in models if kind == ModelKind.FITTED_JUDGE), None)
        if judge is None or not artefact_parts.is_at_hand(self.home, ModelKind.FITTED_JUDGE, judge):
            return models
        try:
            parts = self.workplace.models.fitted_judge(judge).signatures
        except Corrupt:  # the part of the judge says so
            return models
        return [*models, *(model for part in parts for model in artefact_parts.models_of(Signature.parse(part)))]

    def _vectors_part(self, index: str, is_needed: bool) -> VerifiedPart | None:
        """Return the part of the encoder of an index, or of the word vectors that a full signature names."""
        if (part := artefact_parts.encoder_part(self.home, index, is_needed=is_needed)) is not None:
            return part
        signatures = (stored.signature for stored in self.file.scores)
        of_index = (signature for signature in signatures if signature.settings.get("index") == index)
        parts = (
            artefact_parts.vectors_part(self.home, signature, is_needed=is_needed, progress=self.progress)
            for signature in of_index
        )
        return next((part for part in parts if part is not None), None)

    # ── the items ────────────────────────────────────────────────────────────────────────────────────────────────

    def _item_parts(self, items: Items) -> Iterator[VerifiedPart]:
        """Compare the hashes of golds, utterances and replies with those of the file."""
        usable, bad = split(items)
        count = self.file.document.get("items")
        if count is None:
            yield VerifiedPart.unchecked("items", f"{len(usable):,} now; the file does not say how many it had")
        elif count != len(usable):
            yield VerifiedPart.differs("items", f"{count} in the file, {len(usable)} now: these are not the same items")
        else:
            yield VerifiedPart.holds("items", f"{len(usable):,}" + (f", and {len(bad):,} unusable" if bad else ""))
        for part, now in ItemCollection.of(usable).hashes.items():
            before, what = self.file.text(part), "ids and golds" if part == "data" else part
            if before is None:
                yield VerifiedPart.unchecked(part, f"the file has no hash of its {what}")
            elif before == now:
                yield VerifiedPart.holds(part, f"{now}: {what}")
            else:
                of_ids = _id_words(self.file, usable)
                detail = f"; {of_ids}" if of_ids else ""
                yield VerifiedPart.differs(
                    part, f"{before} in the file, {now} now: these {what} are not those of the file{detail}"
                )

    # ── the scores ───────────────────────────────────────────────────────────────────────────────────────────────

    def _metric_parts(
        self, items: Items, searched: SignatureRequest | None, absent: Mapping[str, str]
    ) -> Iterator[VerifiedPart]:
        """Score again by each metric whose artefacts are at hand; what another metric lacks does not matter to it."""
        obstacles = [self._obstacle(stored, absent, is_searched=searched is not None) for stored in self.file.scores]
        is_of_index = ["index" in stored.signature.settings for stored in self.file.scores]
        augmented: Items = items
        provenance: Provenance | None = None
        if searched is not None and any(
            obstacle is None and needs for obstacle, needs in zip(obstacles, is_of_index, strict=True)
        ):
            try:
                augmented, provenance = self._found(items, searched)
            except RefaugError as error:
                yield _part_of_error("retrieval and rating", error, None)
                why = "no references were found again"
                obstacles = [why if needs else before for before, needs in zip(obstacles, is_of_index, strict=True)]
        for stored, obstacle in zip(self.file.scores, obstacles, strict=True):
            if obstacle is not None:
                yield VerifiedPart.unchecked("scores", f"not computed again: {obstacle}", stored.name)
            else:
                yield from self._scored_parts(stored, augmented, provenance)

    def _found(self, items: Items, searched: SignatureRequest) -> tuple[list[Item | BadItem], Provenance]:
        """Return the items with the references that the signatures ask for."""
        assert searched.index is not None, "a request of an index"
        return find_references(
            self.home,
            items,
            searched.index,
            searched.rater,
            searched.augmenting,
            self.workplace.models.threads,
            self.progress,
            self.workplace.open_index,
        )

    def _scored_parts(
        self, stored: StoredScores, items: Items, provenance: Provenance | None
    ) -> Iterator[VerifiedPart]:
        """Score again by one metric, and compare."""
        try:
            evaluation = self._evaluation(stored, items, provenance)
        except RefaugError as error:
            yield _part_of_error("judge" if stored.signature.metric == _JUDGE else "scores", error, stored.name)
            return
        if stored.signature.metric == _JUDGE:
            yield (part := judge_part(stored, evaluation.scores[0]))
            if part.state is not PartState.HOLDS:
                message = "not computed again: a judge's scores are not reproducible without its stored answers"
                yield VerifiedPart.unchecked("scores", message, stored.name)
                return
        usable, _ = split(items)
        yield from self._compared(stored, evaluation, usable)

    def _evaluation(self, stored: StoredScores, items: Items, provenance: Provenance | None) -> Evaluation:
        """Score the items by one metric, as its signature says."""
        settings = self.file.settings(stored)
        models = self.workplace.models
        assert models.find_file is not None, "a workplace finds files"
        texts = resolve_files([str(stored.signature.specification())], models.find_file)
        models = replace(models, asks_judge=False)
        self.progress.stage(f"score {stored.name}")
        chosen = chosen_metrics(texts, items, models)
        if self.set is not None:
            bound = bound_metrics(chosen, models, progress=self.progress)
            evaluation = score_against_set(self.set, items, bound, settings, self.progress)
        else:
            bound = bound_metrics(chosen, models, provenance, progress=self.progress)
            evaluation = evaluate(items, bound, settings, provenance=provenance, progress=self.progress, is_part=True)
        for bad in evaluation.bad_metrics:
            raise BadInput(bad.message)
        return percent(evaluation) if stored.scale > 1 else evaluation

    def _compared(self, stored: StoredScores, evaluation: Evaluation, items: Sequence[Item]) -> Iterator[VerifiedPart]:
        scores = evaluation.scores[0]
        tolerance = _tolerance(stored, is_frozen=self.set is not None)
        document: Mapping[str, Any] = scores.as_json()
        yield from score_differences.signature_parts(stored, scores.signature, list(scores.metric.versions()))
        levels = list(
            score_differences.score_parts(
                stored,
                document,
                tolerance,
                compares=self.file.compares,
                level=self.file.level,
            )
        )
        agree = all(part.state is PartState.HOLDS for part in levels)
        evidence = self.file.document.get("evidence")
        yield references_part(
            stored,
            scores.references,
            evidence,
            items,
            tolerance=tolerance,
            scores_agree=agree,
            is_weighted=scores.metric.info.uses is Uses.WEIGHTED,
        )
        yield from levels


def _has_found_references(test_item: Item) -> bool:
    """Whether references of the item came from an index or are its utterance."""
    return any(reference.source in (Origin.RETRIEVED, Origin.PARROT) for reference in test_item.references)


def _tolerance(stored: StoredScores, *, is_frozen: bool) -> float:
    """Return how far scores may differ: what networks and vectors give depends on batches and processors."""
    settings = stored.signature.settings
    has_vectors = any(key == "vectors" or "vectors=" in text for key, text in settings.items())
    is_found = not is_frozen and "index" in settings
    is_rated = bool(artefact_parts.models_of(stored.signature) or "rater" in settings) and not is_frozen
    is_rated |= is_found and ("rated" in settings.values() or not settings.get("mode", "").startswith("bm25"))
    return score_differences.RATED if has_vectors or is_rated else score_differences.EXACT


def _file_part(file: ScoreFile) -> VerifiedPart:
    if file.lacks_seal:
        message = "its seal was removed: files with a format_version or hashes of their texts are written with one"
        return VerifiedPart.differs("file", message)
    if file.is_sealed is None:
        return VerifiedPart.unchecked("file", "it has no seal, as answers of scores against a set have none")
    if not file.is_sealed:
        return VerifiedPart.differs("file", "its content is not what was written: the seal does not fit")
    return VerifiedPart.holds("file", "its content is what was written: the seal fits")


def _partial_words(file: ScoreFile, items: Items) -> str:
    """Return why scores against a set cannot be made again: they are not of one reply to each of its items."""
    ids = [item.id for item in items if isinstance(item, Item)]
    for stored in file.scores:
        for system in stored.systems.values():
            answered = [reply.get("id") for reply in system.get("replies", [])]
            if answered and answered != ids and set(answered) <= set(ids):
                return (
                    f"the scores are of {len(answered):,} replies to some of the {len(ids):,} items of the set; only "
                    "scores of one reply to each item, in the order of the set, are made again"
                )
    return ""


def _id_words(file: ScoreFile, items: Sequence[Item]) -> str:
    """Return the ids that only the file or only the items have; empty where all are the same, or unknown."""
    systems = file.scores[0].systems
    listed = next(
        ([reply.get("id") for reply in system["replies"]] for system in systems.values() if "replies" in system), None
    )
    if listed is None:
        return ""
    before, now = [str(name) for name in listed], [item.id for item in items]
    ids_in_file, ids_given = set(before), set(now)
    gone, new = [name for name in before if name not in ids_given], [name for name in now if name not in ids_in_file]
    words = [
        f"{what}: {', '.join(names[:3])}" for what, names in (("not given", gone), ("not in the file", new)) if names
    ]
    return "; ".join(words) or ("the same ids in another order" if before != now else "")


def _part_of_error(part: str, error: RefaugError, metric: str | None) -> VerifiedPart:
    """Return the part that an error stands for: something is not at hand, or not as it was."""
    if isinstance(error, NotFound | MissingPart):
        return VerifiedPart.missing(part, error.message, metric)
    if isinstance(error, Corrupt | BadInput | Conflict):
        return VerifiedPart.differs(part, error.message, metric)
    if isinstance(error, Usage):
        return VerifiedPart.missing(part, f"it cannot be computed here: {error.message}", metric)
    raise error
