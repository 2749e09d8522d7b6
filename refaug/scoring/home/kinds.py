"""What is particular to indexes, networks and word vectors of a home: their facts, what is shown, their rules."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Final

from refaug.core.artefacts.kinds import artefact_stores
from refaug.core.artefacts.manifests import MANIFEST, verify_files
from refaug.core.artefacts.version_locks import HeldVersion
from refaug.core.errors import Conflict, Corrupt, NotFound
from refaug.core.files import read_json
from refaug.core.options.declaring import Doc
from refaug.scoring.home.network_parts import part_facts
from refaug.scoring.home.stored_artefacts import ShownVersion, StoredArtefacts, VersionFacts
from refaug.tables.reports.table import Description, FactList, Table

if TYPE_CHECKING:
    from refaug.indexer.manifest import IndexManifest


# Modules that compile loops are imported in methods: a list of raters needs none of them.


@dataclass(frozen=True, kw_only=True)
class IndexFacts(VersionFacts):
    """The facts of a version of an index."""

    vectors: Annotated[str | None, Doc("the word vectors, or the encoder, by which utterances are compared")] = None
    metric: Annotated[str | None, Doc("the recommended metric over it; null with word vectors")] = None
    tokenizer: Annotated[str | None, Doc("what splits texts into words")] = None
    kind: Annotated[str | None, Doc("the kind of its main part, by FAISS's name")] = None
    utterances: Annotated[int | None, Doc("distinct utterances that can be found")] = None
    pairs: Annotated[int | None, Doc("distinct pairs that can be found")] = None
    segments: Annotated[int | None, Doc("its main part and what updates have added")] = None
    superseded: Annotated[int | None, Doc("utterances that a later part, or a deletion, has replaced")] = None
    recall_at_15: Annotated[
        float | None, Doc("the share of exact search's 15 best that it finds; null where it was not measured")
    ] = None
    recall_interval: Annotated[list[float] | None, Doc("the 95 % interval of that share")] = None
    recall_target: Annotated[float | None, Doc("the share that was asked for")] = None


def index_facts(manifest: IndexManifest) -> dict[str, Any]:
    """Return the main facts of a version."""
    check = manifest.check
    main = manifest.segments[0]
    return {
        "logs": [log.name for log in manifest.logs],
        "vectors": manifest.vectors.name,
        "metric": _recommended_metric(manifest),
        "dimensions": manifest.vectors.dimensions,
        "tokenizer": manifest.tokenizer,
        "kind": main.factory,
        "search_depth": [segment.effort for segment in manifest.segments],
        "utterances": manifest.utterances,
        "without_vector": sum(segment.utterances - segment.with_vector for segment in manifest.segments),
        "pairs": manifest.pairs,
        **({"shards": manifest.shards} if manifest.shards > 1 else {}),
        "segments": len(manifest.segments),
        "superseded": sum(segment.superseded for segment in manifest.segments),
        "recall_at_15": None if check is None else check.recall,
        "recall_interval": None if check is None else [check.low, check.high],
        "lost_similarity": None if check is None else check.lost_similarity,
        "recall_target": None if check is None else check.target,
        "recall_queries": None if check is None else check.queries,
        "bytes": sum(facts["size"] for facts in manifest.files.values()),
        "build_seconds": round(sum(manifest.seconds.values()), 1),
    }


def _recommended_metric(manifest: IndexManifest) -> str | None:
    """Return the name of refaug-1 with the encoder of an index, or None where it has word vectors."""
    if manifest.vectors.kind != "encoder":
        return None
    from refaug.metrics.embeddings.recommended import name_with  # noqa: PLC0415  numpy

    return name_with(manifest.vectors.spec)


def readable_facts(facts: dict[str, Any]) -> dict[str, Any]:
    """Round recall to its significant digits, and leave out the search depth of a flat index."""
    shown = {name: fact for name, fact in facts.items() if not (facts["kind"] == "Flat" and name == "search_depth")}
    for name in ("recall_at_15", "lost_similarity"):
        if shown.get(name) is not None:
            shown[name] = f"{shown[name]:.4f}"
    if shown.get("recall_interval"):
        shown["recall_interval"] = "[" + ", ".join(f"{end:.4f}" for end in shown["recall_interval"]) + "]"
    return shown


class StoredIndexes(StoredArtefacts):
    """Indexes: a version that holds what was deleted since cannot serve again."""

    columns = ("kind", "utterances", "pairs", "segments", "recall_at_15", "bytes")
    fact_type = IndexFacts

    def read_facts(self, folder: Path, manifest: Mapping[str, Any]) -> Mapping[str, Any]:  # noqa: ARG002
        """Return what an index holds, and how much of exact search it finds."""
        from refaug.indexer.manifest import IndexManifest  # noqa: PLC0415  compiles

        facts = index_facts(index := IndexManifest.read(folder))
        names = {fact.name for fact in fields(IndexFacts)}
        own = {name: fact for name, fact in facts.items() if name in names}
        return {**own, "id": index.id[:12], "created": index.created}

    def shown(self, held: HeldVersion, manifest: dict[str, Any], title: str) -> ShownVersion:  # noqa: ARG002
        """Return what an index holds, how it was made, and its segments."""
        from refaug.indexer.manifest import IndexManifest  # noqa: PLC0415  compiles

        index = IndexManifest.read(held.folder)
        facts = {"id": index.id[:12], "created": index.created, **index_facts(index)}
        columns = ("folder", "kind", "search depth", "utterances", "superseded", "pairs")
        names = ("folder", "factory", "effort", "utterances", "superseded", "pairs")
        rows = [[getattr(segment, name) for name in names] for segment in index.segments]
        sections: list[Description] = [
            FactList(title, readable_facts(facts)),
            Table("segments", columns, rows),
            FactList("seconds", index.seconds),
        ]
        return self.described(held, asdict(index), {"id": index.id}, lambda: sections)

    def require_publishable(self, name: str, version: str) -> None:
        """Raise Conflict if this version holds pairs that were deleted since."""
        from refaug.indexer.building.update import require_nothing_erased  # noqa: PLC0415
        from refaug.scoring.home.indexes import places_of  # noqa: PLC0415

        require_nothing_erased(places_of(self.settings), name, version)

    def require_sound(self, name: str, version: str, folder: Path) -> None:
        """Open the index in a folder; without its vectors this is checked when it is first opened with them."""
        from refaug.indexer.search.index import ReferenceIndex  # noqa: PLC0415
        from refaug.scoring.home.indexes import places_of  # noqa: PLC0415

        with suppress(NotFound, Conflict):
            ReferenceIndex.of_folder(places_of(self.settings), folder, name, version).close()

    def publish(self, name: str, version: str, *, even_refused: bool = False) -> None:
        """Let a name stand for this version, unless it holds deleted pairs or a check refused it."""
        from refaug.indexer.building.update import publish_version  # noqa: PLC0415
        from refaug.scoring.home.indexes import places_of  # noqa: PLC0415

        publish_version(places_of(self.settings), name, version, even_refused=even_refused)

    def rollback(self, name: str, to: str | None = None, *, even_refused: bool = False) -> str:
        """Let the name stand for `to`, or for the version published before, and return that version."""
        from refaug.indexer.building.update import rollback  # noqa: PLC0415
        from refaug.scoring.home.indexes import places_of  # noqa: PLC0415

        return rollback(places_of(self.settings), name, to, even_refused=even_refused)


_EPOCH_COLUMNS: Final = ("epoch", "train_loss", "validation_loss", "validation_accuracy", "auc", "seconds")


@dataclass(frozen=True, kw_only=True)
class NetworkFacts(VersionFacts):
    """The facts of a version of a network."""

    tokenizer: Annotated[str | None, Doc("SHA-256 of what splits texts into pieces")] = None
    languages: Annotated[list[str] | None, Doc("languages of the texts that it was trained on")] = None
    embedding: Annotated[int | None, Doc("numbers of a piece's vector")] = None


@dataclass(frozen=True, kw_only=True)
class RelevanceFacts(NetworkFacts):
    """The facts of a version of a rater or a ruber."""

    hidden: Annotated[int | None, Doc("numbers of a text's state, for each direction")] = None
    auc_good_vs_wrong: Annotated[
        float | None, Doc("how often a response is put above a wrong one, on utterances outside the training")
    ] = None


@dataclass(frozen=True, kw_only=True)
class RaterFacts(RelevanceFacts):
    """The facts of a version of a rater."""

    network: Annotated[
        str | None,
        Doc(
            "nn: the Bi-GRU of the method; cross: a Transformer; dual: two towers; linear: the closed form; encoder: "
            "small networks over an encoder's vectors"
        ),
    ] = None
    temperature: Annotated[float | None, Doc("of its calibrated ratings")] = None


@dataclass(frozen=True, kw_only=True)
class VhredFacts(NetworkFacts):
    """The facts of a version of a VHRED."""

    cell: Annotated[str | None, Doc("the cell of its recurrent networks; random: its weights were drawn")] = None
    parameters: Annotated[int | None, Doc("numbers that were trained")] = None
    nll: Annotated[float | None, Doc("nats a piece on dialogues that were held out")] = None


def read_report(folder: Path, manifest: Mapping[str, Any]) -> dict[str, Any]:
    """Read the report of a network, or raise Corrupt; neither weights nor torch are loaded."""
    for name in ("config", "details", "files"):
        if not isinstance(manifest.get(name), dict):
            raise Corrupt(f"{folder / 'manifest.json'} has no {name}", remedy="restore it from a backup")
    files = {name: facts for name, facts in manifest["files"].items() if name == "report.json"}
    verify_files(folder, {"files": files})
    return read_json(folder / "report.json") if files else {}


class _StoredNetworks(StoredArtefacts):
    """Networks that were trained on logs, each with a report."""

    epochs: ClassVar[str] = "epochs"  # the title of their table

    def network_facts(self, manifest: Mapping[str, Any], report: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return the facts of this kind of network."""
        raise NotImplementedError

    def read_facts(self, folder: Path, manifest: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return what the manifest and the report of a network say."""
        general = {name: manifest.get(name) for name in ("tokenizer", "languages")}
        report = read_report(folder, manifest)
        return {**general, "embedding": manifest["config"].get("embedding"), **self.network_facts(manifest, report)}

    def shown(self, held: HeldVersion, manifest: dict[str, Any], title: str) -> ShownVersion:
        """Return how a network was made, and how good it is on texts that it was not trained on."""
        report = read_report(held.folder, manifest)

        def sections() -> Sequence[Description]:
            made_of = {"id": str(manifest["id"])[:12], "logs": ", ".join(manifest["details"]["logs"])}
            network = {"network": manifest["network"]} if "network" in manifest else {}
            facts = FactList(title, {**made_of, **network, **manifest["config"], **self.report_facts(report)})
            rows = [
                [epoch["epoch"], *(f"{epoch[name]:.4f}" for name in _EPOCH_COLUMNS[1:5]), epoch["seconds"]]
                for epoch in report.get("epochs", ())
            ]
            return [facts, Table(self.epochs, _EPOCH_COLUMNS, rows)] if rows else [facts]

        return self.described(held, manifest, {"report": report}, sections)


class StoredRubers(_StoredNetworks):
    """Rubers: networks of RUBER's unreferenced part."""

    columns: ClassVar[tuple[str, ...]] = ("hidden", "auc_good_vs_wrong", "id")
    fact_type = RelevanceFacts

    def network_facts(self, manifest: Mapping[str, Any], report: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return the size, and how often a good response is put above a wrong one."""
        auc = report.get("auc_good_vs_wrong")
        rounded = None if auc is None else round(float(auc), 4)
        return {"hidden": manifest["config"].get("hidden"), "auc_good_vs_wrong": rounded}

    def report_facts(self, report: Mapping[str, Any]) -> dict[str, object]:
        """Return the main facts of a report."""
        return {
            "parameters": report["parameters"],
            "pairs": report["examples"]["train"]["pairs"],
            "held_out_pairs": report["examples"]["validation"]["an_epoch"],  # on which the figures below are measured
            "best_epoch": report["best_epoch"],
            **{name: f"{report[name]:.4f}" for name in ("validation_loss", "ranking_accuracy", "auc_good_vs_wrong")},
            "mean_score_good": f"{report['mean_score']['good']:.4f}",
            "mean_score_wrong": f"{report['mean_score']['wrong']:.4f}",
        }


class StoredRaters(StoredRubers):
    """Raters."""

    columns = ("network", *StoredRubers.columns)
    fact_type = RaterFacts
    keeps_vectors = True

    def network_facts(self, manifest: Mapping[str, Any], report: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return what a ruber has, too, the kind of the network, and the temperature of its ratings."""
        own = {"network": manifest.get("network", "nn"), "temperature": manifest.get("temperature")}
        return {**super().network_facts(manifest, report), **own}

    def report_facts(self, report: Mapping[str, Any]) -> dict[str, object]:
        """Return the main facts of a report."""
        return {
            "parameters": report["parameters"],
            **({"shared_utterances": report["mined"]["utterances"]} if "mined" in report else {}),
            "positive_examples": report["examples"]["train"]["positive"],
            **({"encoder": report["encoder"]} if "encoder" in report else {}),
            **({"best_epoch": report["best_epoch"]} if "best_epoch" in report else {}),
            **{name: f"{report[name]:.4f}" for name in ("validation_loss", "validation_accuracy", "auc_good_vs_wrong")},
            **_hard_negative_facts(report.get("hard")),
            **{f"auc_good_vs_{kind}": f"{auc:.4f}" for kind, auc in report.get("auc_by_kind", {}).items()},
            **_facts_of_seeds(report),
            "calibration_error": f"{report['calibration']['raw']['error']:.4f}",
            "temperature": f"{report['temperature']:.3f}",
            "with_temperature": f"{report['calibration']['cal']['error']:.4f}",
        }


def _facts_of_seeds(report: Mapping[str, Any]) -> dict[str, object]:
    """Return how the networks of a rater of several do, which differ in their seed."""
    if "seeds" not in report:
        return {}
    kinds, by_seed = report["auc_by_wrong_kind"], report["seeds"]["figures"]
    return {
        "seeds": ", ".join(map(str, report["seeds"]["seeds"])),
        **{f"batches_auc_{kind}": f"{auc:.4f}, by seed {_mean_and_sd(by_seed[kind])}" for kind, auc in kinds.items()},
    }


def _mean_and_sd(values: Mapping[str, Any]) -> str:
    return f"{values['mean']:.4f}" + ("" if values["sd"] is None else f" ± {values['sd']:.4f}")


def _hard_negative_facts(hard: Any) -> dict[str, object]:
    """Return the figures on hard negatives, if these were measured; some of them would do as responses."""
    if hard is None:
        return {}
    return {
        "auc_good_vs_hard": f"{hard['auc_good_vs_hard']:.4f}",
        "hard_taken_for_good": f"{100 * hard['taken_for_good']:.0f} %",
    }


class StoredVhreds(_StoredNetworks):
    """Encoders of dialogues: an adem opens the one that it was fitted with."""

    columns = ("cell", "parameters", "nll", "id")
    fact_type = VhredFacts
    epochs = "rounds"
    user = "an adem was fitted with"

    def network_facts(self, manifest: Mapping[str, Any], report: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return the cell, the size and the likelihood on dialogues that were held out."""
        nll = report.get("nll")
        return {
            "cell": manifest["config"].get("cell"),
            "parameters": report.get("parameters"),
            "nll": None if nll is None else round(float(nll), 4),
        }

    def report_facts(self, report: Mapping[str, Any]) -> dict[str, object]:
        """Return the main facts of a report; a random encoder has few."""
        facts: dict[str, object] = {"parameters": report["parameters"], "pieces": report["tokenizer"]["pieces"]}
        if "nll" not in report:
            return facts
        return {
            **facts,
            "dialogues": report["dialogues"]["train"],
            "held_out_dialogues": report["dialogues"]["validation"],  # on which the figures below are measured
            "best_round": report["best_epoch"],
            "nll": f"{report['nll']:.4f} nats a piece",
            **{name: f"{report[name]:.4f}" for name in ("nll_with_context", "nll_without_context", "unigram_nll")},
            "kl": f"{report['kl']:.4f} nats a turn, latent variable {report['latent']}",
            **part_facts(report),
            "discrimination": f"{report['discrimination']:.4f} of true contexts above drawn ones",
        }

    def user_needs(self) -> Callable[[str, str], bool]:
        """Return a function that says whether some adem needs a version."""
        adems = artefact_stores(self.settings)["adem"]
        manifests: list[Any] = [
            read_json(adems.folder(name, version) / MANIFEST)
            for name in adems.names()
            for version in adems.versions(name)
        ]
        needed = {manifest.get("encoder", {}).get("id") for manifest in manifests}

        def is_needed(name: str, version: str) -> bool:
            manifest: Any = read_json(self.versions.folder(name, version) / MANIFEST)
            return manifest.get("id") in needed

        return is_needed


# ── ADEMs of a home: the facts of a version, and how it was fitted ────────────────────────────────────────────────────

_REASONS: Final = {
    "golds_themselves": "golds themselves",
    "without_context": "without a context",
    "without_gold": "without a gold",
}


@dataclass(frozen=True, kw_only=True)
class AdemFacts(VersionFacts):
    """The facts of a version of an ADEM."""

    form: Annotated[str | None, Doc("what it compares a reply with")] = None
    encoder: Annotated[str | None, Doc("the VHRED that its encoder is taken from")] = None
    validation_partial_spearman: Annotated[
        float | None, Doc("the agreement with ratings at equal length, on contexts that it was not fitted to")
    ] = None


def _left_out(files: Sequence[Mapping[str, Any]]) -> dict[str, str]:
    """Return how many rated replies no scorer of the form learns from, and why; nothing where all count."""
    totals = {reason: sum(counts[reason] for counts in files) for reason in _REASONS}
    listed = [f"{total:,} {_REASONS[reason]}" for reason, total in totals.items() if total]
    return {"left_out": ", ".join(listed)} if listed else {}


def adem_figure(figure: float | None) -> str:
    """Return a figure with four digits, or a dash where there is none."""
    return "–" if figure is None else f"{figure:.4f}"


class StoredAdems(StoredArtefacts):
    """ADEMs: scorers that were fitted to people's ratings."""

    columns = ("form", "encoder", "validation_partial_spearman", "id")
    fact_type = AdemFacts

    def read_facts(self, folder: Path, manifest: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return the form, the encoder, and the agreement on validation."""
        partial = read_report(folder, manifest)["validation"]["trained"]["partial_spearman"]
        return {
            "form": manifest["config"].get("form"),
            "encoder": str(manifest["encoder"]["spec"]),
            "validation_partial_spearman": None if partial is None else round(float(partial), 4),
        }

    def report_facts(self, report: Mapping[str, Any]) -> dict[str, Any]:
        """Return the main facts of a report."""
        balance, spread, validation = report["balance"], report["spread"], report["validation"]
        return {
            "form": report["form"],
            "state": report["state"],
            "protocol": report["protocol"],
            **_left_out(report["files"]),
            "train_rows": report["train_rows"],
            "balanced_rows": balance["balanced_rows"],
            "dropped_rows": balance["dropped"],
            "length_rating_before": adem_figure(balance["length_rating_before"]),
            "length_rating_after": adem_figure(balance["length_rating_after"]),
            "components_share": adem_figure(report["components_share"]),
            "best_epoch": report["best_epoch"],
            "validation_rows": report["validation_rows"],
            "validation_error": adem_figure(report["validation_error"]),
            "validation_spearman": adem_figure(validation["trained"]["spearman"]),
            "validation_partial_spearman": adem_figure(validation["trained"]["partial_spearman"]),
            "before_training_spearman": adem_figure(validation["untrained"]["spearman"]),
            "sd_score_over_sd_rating": adem_figure(spread["sd_score_over_sd_rating"]),
            "share_near_mean": adem_figure(spread["share_near_mean"]),
        }

    def shown(self, held: HeldVersion, manifest: dict[str, Any], title: str) -> ShownVersion:
        """Return how a scorer was fitted, and how its scores spread."""
        report = read_report(held.folder, manifest)

        def sections() -> Sequence[Description]:
            matrices = report["matrices"]
            conicity = [
                (vectors, adem_figure(sides["encoder"]), adem_figure(sides["projected"]))
                for vectors, sides in report["spread"]["conicity"].items()
            ]
            return [
                FactList(title, {"id": str(manifest["id"])[:12], **self.report_facts(report)}),
                Table("balancing", ("what", "number"), list(report["balance"].items())),
                Table("matrices", list(matrices[0]), [list(facts.values()) for facts in matrices]),
                Table(
                    "conicity: mean cosine with the mean vector", ("vectors", "of the encoder", "projected"), conicity
                ),
            ]

        return self.described(held, manifest, {"report": report}, sections)


@dataclass(frozen=True, kw_only=True)
class VectorFacts(VersionFacts):
    """The facts of a version of word vectors."""

    words: Annotated[int | None, Doc("words that have a vector")] = None
    dimensions: Annotated[int | None, Doc("numbers of a vector")] = None
    made: Annotated[str | None, Doc("trained or imported")] = None


def training_facts(details: Any) -> dict[str, Any]:
    """Return the main facts of how vectors were made."""
    coverage = details.get("coverage")
    losses = details.get("losses")
    return {
        "made": details.get("made", "-"),
        "tokenizer": details.get("tokenizer", "not known"),
        **({} if not losses else {"epochs": len(losses), "loss": f"{losses[-1]:.6f}"}),
        **({} if not coverage else coverage_facts(coverage)),
    }


def coverage_facts(coverage: dict[str, int]) -> dict[str, Any]:
    """Return what vectors know of texts, in words."""
    return {
        "known_tokens": _share(coverage["known_tokens"], coverage["tokens"]),
        "texts_without_vector": _share(coverage["without_vector"], coverage["texts"]),
    }


def _share(part: int, whole: int) -> str:
    return f"{part:,} of {whole:,} ({100 * part / max(1, whole):.2f} %)"


class StoredWordVectors(StoredArtefacts):
    """Word vectors: an index opens those that it was built with."""

    columns = ("words", "dimensions", "made", "id")
    fact_type = VectorFacts
    user = "an index was built with"

    def read_facts(self, folder: Path, manifest: Mapping[str, Any]) -> Mapping[str, Any]:  # noqa: ARG002
        """Return the size of the vectors and how they were made."""
        sizes = {name: manifest[name] for name in ("words", "dimensions")}
        return {**sizes, "id": manifest["sha256"][:12], "made": manifest.get("details", {}).get("made")}

    def shown(self, held: HeldVersion, manifest: dict[str, Any], title: str) -> ShownVersion:
        """Return what vectors hold and how they were made."""
        from refaug.indexer.index_folders import open_vectors_version  # noqa: PLC0415  compiles

        open_vectors_version(held)

        def facts() -> dict[str, Any]:
            sizes = {"words": manifest["words"], "dimensions": manifest["dimensions"]}
            return {**sizes, "sha256": manifest["sha256"][:12], **training_facts(manifest.get("details", {}))}

        return self.described(held, manifest, {}, lambda: [FactList(title, facts())])

    def user_needs(self) -> Callable[[str, str], bool]:
        """Return a function that says whether some index needs a version."""
        from refaug.scoring.home.indexes import needed_by_indexes  # noqa: PLC0415

        return needed_by_indexes(self.settings, self.versions, "sha256")


# ── Encoders of texts in a home: the facts of a version, and which versions an index needs ────────────────────────────


@dataclass(frozen=True, kw_only=True)
class EncoderFacts(VersionFacts):
    """The facts of a version of an encoder."""

    dimensions: Annotated[int | None, Doc("numbers of a text's vector")] = None
    file: Annotated[str | None, Doc("the folder or the file that it was copied from")] = None


class StoredEncoders(StoredArtefacts):
    """Encoders of texts: an index or a rater opens the one that it was made with."""

    columns = ("dimensions", "file", "id")
    fact_type = EncoderFacts
    user = "an index or a rater was made with"
    keeps_vectors = True

    def read_facts(self, folder: Path, manifest: Mapping[str, Any]) -> Mapping[str, Any]:  # noqa: ARG002
        """Return the size of the vectors, and where the encoder came from."""
        return {"dimensions": manifest["dimensions"], "file": manifest["file"]}

    def user_needs(self) -> Callable[[str, str], bool]:
        """Return a function that says whether some index or rater needs a version."""
        from refaug.scoring.home.indexes import needed_by_indexes  # noqa: PLC0415

        by_indexes, raters = (
            needed_by_indexes(self.settings, self.versions, "id"),
            artefact_stores(self.settings)["rater"],
        )
        configs: list[Any] = [
            read_json(raters.folder(name, version) / MANIFEST).get("config", {})
            for name in raters.names()
            for version in raters.versions(name)
        ]
        by_raters = {config.get("encoder") for config in configs}

        def is_needed(name: str, version: str) -> bool:
            manifest = read_json(self.versions.folder(name, version) / MANIFEST)
            return by_indexes(name, version) or manifest.get("id") in by_raters

        return is_needed
