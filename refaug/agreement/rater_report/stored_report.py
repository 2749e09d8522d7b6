"""Reports on raters, read back from their JSON: their page is rendered again without the rater and the index."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

from refaug.agreement.rater_report import report
from refaug.core.errors import BadInput
from refaug.core.records import Origin, Reference
from refaug.scoring.items import BadItem

_BAD_ITEM: Final = re.compile(r"(?s)(.*?), line (\d+)(?:, (.*?))?: (.*)")
_NOT_FIGURES: Final = frozenset({"made_by", "pairs_from", "bad_items", "examples"})


def stored_rater_report(document: Mapping[str, Any], shown_name: str) -> report.RaterReport:
    """Return the report that a document was written from; BadInput says what the document lacks."""
    try:
        about = report.RaterDescription(
            spec=document["rater"],
            id=document["id"],
            logs=tuple(document["logs"]),
            network=document["network"],
            training=document["training"],
        )
        retrieved = document["retrieved"]
        return report.RaterReport(about=about, retrieved=None if retrieved is None else _retrieval(retrieved))
    except (KeyError, TypeError, AttributeError, ValueError) as error:
        raise BadInput(
            f"{shown_name} is not as refaug train report rater writes it: {error}",
            remedy="run refaug train report rater again",
        ) from error


def _retrieval(stored: Mapping[str, Any]) -> report.RetrievalReport:
    return report.RetrievalReport(
        made_by=stored["made_by"],
        pairs_from=stored["pairs_from"],
        figures=_figures({name: figure for name, figure in stored.items() if name not in _NOT_FIGURES}),
        examples=tuple(map(_example, stored["examples"])),
        bad_items=tuple(map(_bad_item, stored["bad_items"])),
    )


def _figures(stored: Mapping[str, Any]) -> report.RetrievedFigures:
    histogram, quartiles = stored["histogram"], stored["quartiles"]
    return report.RetrievedFigures(
        **{
            **stored,
            "quartiles": None if quartiles is None else tuple(quartiles),
            "histogram": report.Histogram(edges=tuple(histogram["edges"]), counts=tuple(histogram["counts"])),
            "by_similarity": tuple(
                report.SimilarityBin(**similarity_bin) for similarity_bin in stored["by_similarity"]
            ),
        }
    )


def _example(stored: Mapping[str, Any]) -> report.Example:
    return report.Example(
        id=stored["id"],
        utterance=stored["utterance"],
        golds=tuple(stored["golds"]),
        references=tuple(map(_reference, stored["references"])),
    )


def _reference(stored: Mapping[str, Any]) -> Reference:
    return Reference(
        text=stored["text"],
        source=Origin(stored["source"]),
        weight=stored["weight"],
        rating=stored["rating"],
        similarity=stored["similarity"],
        utterance=stored["utterance"],
    )


def _bad_item(text: str) -> BadItem:
    """Return an item whose text is this one: the parts of its place are not told apart again."""
    parts = _BAD_ITEM.fullmatch(text)
    if parts is None:
        raise ValueError(f"{text!r} is no item that could not be read")
    file, line, place, message = parts.groups()
    return BadItem(file=file, line=int(line), item=None, field=place or "", message=message)
