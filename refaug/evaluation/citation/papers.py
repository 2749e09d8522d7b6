"""The papers that metrics and retrieval stand on: facts alone, in a sentence and as BibTeX."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Final, Self

import orjson

_FILE: Final = Path(__file__).with_name("papers.json")
_LATEX: Final = {"ć": r"{\'c}", "é": r"{\'e}", "ê": r"{\^e}"}
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


# ── which papers a score stands on ────────────────────────────────────────────────────────────────────────────────

_SACREBLEU: Final = "post-2018-sacrebleu"
_TSUTA: Final = "tsuta-2020-upsilon-bleu"
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
    "rater": (_TSUTA,),
    "ruber": ("tao-2018-ruber",),
    "likelihood": ("serban-2017-vhred", "li-2016-diversity"),
    "adem": ("lowe-2017-adem",),
    "judge-fit": ("hoerl-1970-ridge",),
    "judge": ("zheng-2023-mt-bench",),
}
_SMOOTHED: Final = "chen-2014-smoothing"
_WEIGHTED: Final = "upsilon-"


def metric_papers(metric: str, settings: dict[str, str]) -> list[Paper]:
    """Return the papers of a metric with these settings; an unknown metric has none."""
    base = metric.removeprefix(_WEIGHTED)
    keys = [*_OF_METRIC.get(metric, (_TSUTA, *_OF_METRIC.get(base, ())) if metric != base else ())]
    if base.endswith("bleu") and settings.get("smooth", "none") != "none":
        keys.append(_SMOOTHED)
    if settings.get("weighting") == "sif" and base in ("embedding-average", "greedy"):
        keys.append("arora-2017-sif")
    if metric == "judge" and settings.get("score", "expected") == "expected":
        keys.append("liu-2023-g-eval")
    if metric == "ruber":
        for part in ("referenced", "unreferenced"):
            name, *parameters = settings.get(part, "").split(";")
            of_part = dict(text.partition("=")[::2] for text in parameters)
            keys += [paper.key for paper in metric_papers(name, of_part)]
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
