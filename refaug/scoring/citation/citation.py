"""What to write beside scores: a sentence, the papers they stand on, and the signature that reproduces them.

A version that is gone is cited as any other, with the time of its removal.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import cache
from pathlib import Path
from typing import Any, Final, Self

import orjson

from refaug.core.artefacts.kinds import artefact_stores
from refaug.core.artefacts.manifests import MANIFEST
from refaug.core.artefacts.removals import read_removal
from refaug.core.artefacts.versions import VersionName, Versions
from refaug.core.errors import BadInput
from refaug.core.files import NAME, read_json
from refaug.core.home import Settings
from refaug.core.version import VERSION
from refaug.metrics.catalogue import find_info
from refaug.metrics.models.model_kinds import ModelKind
from refaug.metrics.signature import Signature
from refaug.metrics.specification import BETWEEN_MEMBERS
from refaug.scoring.provenance import MIXED
from refaug.scoring.reference_sets.reference_set import SetManifest
from refaug.scoring.reference_sets.set_store import Withdrawal
from refaug.scoring.score_files import score_document

# ── The papers that metrics and retrieval stand on: facts alone, in a sentence and as BibTeX ──────────────────────────

_FILE: Final = Path(__file__).with_name("papers.json")
_LATEX: Final = {"ä": r"{\"a}", "ć": r"{\'c}", "é": r"{\'e}", "ê": r"{\^e}"}
_VENUE: Final = {"inproceedings": "booktitle", "article": "journal"}


@dataclass(frozen=True, kw_only=True)
class Paper:
    """A paper; `title` has the braces that keep capitals in BibTeX."""

    key: str
    kind: str
    authors: tuple[str, ...]  # "Surname, Given names"
    title: str
    year: int
    venue: str
    more: tuple[tuple[str, str], ...]  # volume, number, pages, doi or url

    @classmethod
    def of(cls, key: str, fields: dict[str, Any]) -> Self:
        """Return the paper of an entry of the file."""
        names = ("volume", "number", "pages", "doi", "url")
        return cls(
            key=key,
            kind=fields["kind"],
            authors=tuple(fields["authors"]),
            title=fields["title"],
            year=fields["year"],
            venue=fields["in"],
            more=tuple((name, fields[name]) for name in names if name in fields),
        )

    @property
    def in_text(self) -> str:
        """The paper in a sentence: `Galley et al., 2015`."""
        surnames = [author.partition(",")[0] for author in self.authors]
        names = surnames[0] if len(surnames) == 1 else " and ".join(surnames)
        return f"{names if len(surnames) <= 2 else f'{surnames[0]} et al.'}, {self.year}"

    @property
    def bibtex(self) -> str:
        """The entry for a bibliography."""
        fields = [
            ("author", " and ".join(self.authors)),
            ("title", self.title),
            (_VENUE[self.kind], self.venue),
            ("year", str(self.year)),
            *self.more,
        ]
        return bibtex_entry(self.kind, self.key, fields)


def bibtex_entry(kind: str, key: str, fields: Iterable[tuple[str, str]]) -> str:
    """Return an entry in ASCII, a field a line."""
    lines = [f"  {name} = {{{_latex(content)}}}," for name, content in fields]
    return "\n".join([f"@{kind}{{{key},", *lines, "}"])


def _latex(text: str) -> str:
    return "".join(_LATEX.get(character, character) for character in text)


@cache
def papers() -> dict[str, Paper]:
    """Return all papers by key."""
    return {key: Paper.of(key, fields) for key, fields in orjson.loads(_FILE.read_bytes()).items()}


# ── Which papers a score stands on ────────────────────────────────────────────────────────────────────────────────

_SACREBLEU: Final = "post-2018-sacrebleu"
_TSUTA: Final = "tsuta-2020-upsilon-bleu"
_TSUTA_BERTSCORE: Final = "tsuta-2023-upsilon-bertscore"
_OF_METRIC: Final = {
    "bleu": ("papineni-2002-bleu", _SACREBLEU),
    "multi-bleu": ("papineni-2002-bleu", _SACREBLEU),
    "delta-bleu": ("galley-2015-delta-bleu", "papineni-2002-bleu", _SACREBLEU),
    "upsilon-bleu": (_TSUTA, "galley-2015-delta-bleu", "papineni-2002-bleu", _SACREBLEU),
    "rouge-1": ("lin-2004-rouge",),
    "rouge-2": ("lin-2004-rouge",),
    "rouge-l": ("lin-2004-rouge",),
    "chrf": ("popovic-2015-chrf", _SACREBLEU),
    "chrf++": ("popovic-2017-chrf-words", "popovic-2015-chrf", _SACREBLEU),
    "ter": ("snover-2006-ter", _SACREBLEU),
    "meteor": ("banerjee-2005-meteor",),
    "cider": ("vedantam-2015-cider",),
    "embedding-average": ("mitchell-2008-composition", "liu-2016-dialogue-metrics"),
    "vector-extrema": ("forgues-2014-extrema",),
    "pooled": ("tao-2018-ruber",),
    "greedy": ("rus-2012-greedy",),
    "bertscore": ("zhang-2020-bertscore",),
    "sentence-cosine": ("reimers-2019-sentence-bert",),
    "refaug-1": (_TSUTA, "reimers-2019-sentence-bert", "popovic-2015-chrf"),
    "rater": (_TSUTA,),
    "ruber": ("tao-2018-ruber",),
    "likelihood": ("serban-2017-vhred", "li-2016-diversity"),
    "followup": ("mehri-2020-fed",),
    "followup-endpoint": ("mehri-2020-fed",),
    "masked": ("mehri-2020-usr",),
    "retrieval": ("mehri-2020-usr",),
    "next-utterance": ("sinha-2020-maude",),
    "adem": ("lowe-2017-adem",),
    "judge-fit": ("hoerl-1970-ridge",),
    "judge": ("zheng-2023-mt-bench",),
    "panel": ("verga-2024-juries",),
}
_SMOOTHED: Final = "chen-2014-smoothing"
_WEIGHTED: Final = "upsilon-"


def metric_papers(metric: str, settings: dict[str, str]) -> list[Paper]:
    """Return the papers of a metric with these settings; an unknown metric has none."""
    base = metric.removeprefix(_WEIGHTED)
    keys = [*_OF_METRIC.get(metric, (_TSUTA, _TSUTA_BERTSCORE, *_OF_METRIC.get(base, ())) if metric != base else ())]
    if base.endswith("bleu") and settings.get("smooth", "none") != "none":
        keys.append(_SMOOTHED)
    if settings.get("weighting") == "sif" and base in ("embedding-average", "greedy"):
        keys.append("arora-2017-sif")
    if metric == "judge" and settings.get("score", "expected") == "expected":
        keys.append("liu-2023-g-eval")
    parts = [settings.get(part, "") for part in ("referenced", "unreferenced")] if metric == "ruber" else []
    parts += settings.get("of", "").split(BETWEEN_MEMBERS) if metric == "panel" else []
    for part in parts:
        name, *parameters = part.split(";")
        keys += [paper.key for paper in metric_papers(name, dict(text.partition("=")[::2] for text in parameters))]
    return [papers()[key] for key in dict.fromkeys(keys)]


def retrieval_papers(settings: dict[str, str], details: dict[str, str]) -> list[Paper]:
    """Return the papers of how references were found and weighted, by the provenance of references."""
    keys = list[str]()
    if settings.get("index"):
        keys.append(_TSUTA)
        keys += ["robertson-2009-bm25"] if settings.get("mode", "").startswith("bm25") else ["johnson-2021-faiss"]
        if details.get("weighting") == "sif":
            keys.append("arora-2017-sif")
    return [papers()[key] for key in keys]


# ── What to write beside scores ───────────────────────────────────────────────────────────────────────────────────────

CITED_KINDS: Final = ("index", "rater", "ruber", "adem", "vhred", "judge-fit")  # as signatures name them


class VersionState(StrEnum):
    """Whether a cited version is at hand."""

    HERE = "here"
    REMOVED = "removed"
    UNKNOWN = "unknown"  # it was never in this home, or its removal was not noted
    OTHER_CONTENT = "other content"


@dataclass(frozen=True, kw_only=True)
class CitedVersion:
    """A version that made references or ratings: `name@version#content`."""

    kind: str
    spec: str
    state: VersionState
    removed_at: str = ""
    purpose: str = ""  # of the removal

    def as_json(self) -> dict[str, object]:
        """Return all that is known."""
        removal = {"removed_at": self.removed_at, "purpose": self.purpose} if self.removed_at else {}
        return {"kind": self.kind, "version": self.spec, "state": self.state.value, **removal}

    @property
    def in_words(self) -> str:
        """What to know of the version; empty where it is at hand."""
        match self.state:
            case VersionState.REMOVED:
                return f"{self.kind} {self.spec} was removed at {self.removed_at}: {self.purpose}"
            case VersionState.OTHER_CONTENT:
                return f"{self.kind} {self.spec} is here with other content"
            case VersionState.UNKNOWN:
                return f"{self.kind} {self.spec} is not in this home"
        return ""


@dataclass(frozen=True, kw_only=True)
class Citation:
    """A sentence with the papers it names, the signature, and the versions."""

    sentence: str
    signature: str
    papers: tuple[Paper, ...]
    versions: tuple[CitedVersion, ...]
    refaug: str
    set_id: str | None = None
    notes: tuple[str, ...] = ()

    def as_json(self) -> dict[str, object]:
        """Return everything but the bibliography, which citations share."""
        return {
            "sentence": self.sentence,
            "signature": self.signature,
            "papers": [paper.key for paper in self.papers],
            "versions": [version.as_json() for version in self.versions],
            "refaug": self.refaug,
            **({"set": self.set_id} if self.set_id is not None else {}),
            "notes": list(self.notes),
        }


def cite_signature(line: str, settings: Settings, set_id: str | None = None) -> Citation:
    """Return the citation of scores with this signature, short or full; the scores may be against a frozen set."""
    signature = Signature.parse(line)
    own = dict(signature.settings)
    of_retrieval = retrieval_papers(own, dict(signature.details))
    of_metric = metric_papers(signature.metric, own)
    versions = tuple(_cited_versions(own, signature.models, settings))
    asked = next((spec for kind, spec in signature.models if kind is ModelKind.RATER), None)
    against = f" against the frozen reference set {set_id}" if set_id is not None else ""
    sentence = (
        f"Replies are scored by {signature.metric}{_in_brackets(of_metric)}{against}, computed by refaug "
        f"{signature.refaug}{_references_in_words(own, of_retrieval, asked)}."
    )
    unknown = () if find_info(signature.metric) is not None else (f"this refaug has no metric {signature.metric}",)
    return Citation(
        sentence=sentence,
        signature=line.strip(),
        papers=tuple(dict.fromkeys([*of_metric, *of_retrieval])),
        versions=versions,
        refaug=signature.refaug,
        set_id=set_id,
        notes=(*unknown, *_notes(versions)),
    )


def cite_set(manifest: SetManifest, withdrawal: Withdrawal | None, settings: Settings) -> Citation:
    """Return the citation of a frozen set."""
    provenance = manifest.references_provenance
    own = dict(provenance.settings)
    of_retrieval = retrieval_papers(own, dict(provenance.details))
    versions = tuple(_cited_versions(own, (), settings))
    of_parent = f", derived from {manifest.parent}" if manifest.parent is not None else ""
    sentence = (
        f"Replies are scored against the frozen reference set {manifest.id} (for {manifest.purpose.value}, "
        f"{manifest.items:,} items with {manifest.references:,} references{of_parent}), which refaug {manifest.refaug} "
        f"froze on {manifest.created[:10]}{_references_in_words(own, of_retrieval)}."
    )
    withdrawn = f"the set was withdrawn at {withdrawal.at}: {withdrawal.reason}" if withdrawal is not None else ""
    return Citation(
        sentence=sentence,
        signature=provenance.line,
        papers=tuple(of_retrieval),
        versions=versions,
        refaug=manifest.refaug,
        set_id=manifest.id,
        notes=(*([withdrawn] if withdrawn else []), *_notes(versions)),
    )


def bibliography(citations: Iterable[Citation]) -> str:
    """Return the BibTeX of all papers that the citations name, each once, and of refaug."""
    citations = list(citations)
    cited = dict.fromkeys(paper for citation in citations for paper in citation.papers)
    releases = dict.fromkeys(citation.refaug for citation in citations)
    programs = [
        bibtex_entry("misc", f"refaug-{release}", [("title", "{refaug}"), ("note", f"Version {release}")])
        for release in releases or {VERSION: None}
    ]
    return "\n\n".join([*(paper.bibtex for paper in cited), *programs])


# ── Words ─────────────────────────────────────────────────────────────────────────────────────────────────────────


def _in_brackets(papers: Sequence[Paper]) -> str:
    return f" ({'; '.join(paper.in_text for paper in papers)})" if papers else ""


def _references_in_words(settings: Mapping[str, str], papers: Sequence[Paper], asked: str | None = None) -> str:
    """Say where references come from, by the settings of a signature."""
    if settings.get("references", "").startswith(MIXED):
        return ", with references that were made in several ways"
    index, rater = settings.get("index"), settings.get("rater")
    if index is None:
        return f", asking the rater {_plain(asked)}" if asked is not None else ""
    how = "; ".join([*([settings["mode"]] if "mode" in settings else []), *(paper.in_text for paper in papers)])
    weighted = "weighted by" if settings.get("weights") == "rated" else "beside"
    by_rater = f" and {weighted} the rater {_plain(rater)}" if rater is not None else ""
    count = f"up to {settings.get('k', '?')} references for each item"
    return f", with {count} found in the index {_plain(index)} ({how}){by_rater}"


def _plain(spec: str | None) -> str:
    return (spec or "").partition("#")[0]


def _notes(versions: Iterable[CitedVersion]) -> Iterator[str]:
    return (version.in_words for version in versions if version.in_words)


# ── Versions ──────────────────────────────────────────────────────────────────────────────────────────────────────


def _cited_versions(
    settings: Mapping[str, str], models: Iterable[tuple[ModelKind, str]], home: Settings
) -> Iterator[CitedVersion]:
    """Yield the versions that settings name by kind, and the models of the metric."""
    stores = artefact_stores(home)
    for kind in CITED_KINDS:
        by_key = [settings[kind]] if kind in settings else []
        for spec in dict.fromkeys([*by_key, *(spec for of_kind, spec in models if of_kind == kind)]):
            yield _cited_version(stores[kind], kind, spec)


def _cited_version(store: Versions, kind: str, spec: str) -> CitedVersion:
    """Look a version up; its name is a part of a path only if it is one of ours."""
    named, _, content = spec.partition("#")
    name, _, version = named.partition("@")
    if NAME.fullmatch(name) is None or VersionName.parse(version) is None:
        return CitedVersion(kind=kind, spec=spec, state=VersionState.UNKNOWN)
    manifest = store.folder(name, version) / MANIFEST
    if manifest.exists():
        is_same = str(read_json(manifest).get("id", "")).startswith(content)
        return CitedVersion(kind=kind, spec=spec, state=VersionState.HERE if is_same else VersionState.OTHER_CONTENT)
    removal = read_removal(store.root, name, version)
    if removal is None:
        return CitedVersion(kind=kind, spec=spec, state=VersionState.UNKNOWN)
    return CitedVersion(
        kind=kind, spec=spec, state=VersionState.REMOVED, removed_at=removal.at, purpose=removal.purpose
    )


# ── The signatures of a file of scores: what `refaug score --json` prints and the service answers ─────────────────────


@dataclass(frozen=True, kw_only=True)
class CitedScores:
    """What a file says of its scores: each signature once, and the frozen set that they are against."""

    signatures: tuple[str, ...]  # full ones, where the file has them
    set_id: str | None
    note: str = ""  # what is wrong with the file, which its scores do not show


def signatures_in(path: Path, called: str) -> CitedScores:
    """Return the signatures of a file of scores or sums; BadInput where it has none, or is damaged.

    A file that was changed is cited, and a note says so.
    """
    document = score_document.ScoreDocument.read(path, called)
    lines = dict.fromkeys(entry.line for entry in document.entries(score_document.SCORES, score_document.STATS))
    if not lines:
        raise BadInput(f"{called}: it has no scores", remedy=score_document.REMEDY)
    note = f"{called} was changed after it was written: its seal does not fit" if _is_changed(document) else ""
    return CitedScores(signatures=tuple(lines), set_id=document.set_id, note=note)


def _is_changed(document: score_document.ScoreDocument) -> bool:
    """Whether the content is not what was written; answers with sums have no seal."""
    has_scores = score_document.SCORES in document.content
    return score_document.is_sealed(document.content) is False or (
        has_scores and score_document.lacks_seal(document.content)
    )
