"""Records of single replies in the logs of other harnesses: the item, the sums and score, the signature, and a seal.

A harness scores sample by sample, and its log has another form. A record stands in that log beside the score, and has
what `refaug score verify` needs to make the score again. Corpus scores are combined from the sums of records, and equal
those of all replies scored at once.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Self

from refaug.core.errors import BadInput, RefaugError
from refaug.core.processes.kept import cached_property
from refaug.core.records import Item
from refaug.metrics.signature import Signature
from refaug.scoring.items import BadItem, parse_item
from refaug.scoring.score_files.score_document import SEAL, has_seal, seal_of
from refaug.scoring.scores import Evaluation

SYSTEM: Final = "model"  # a log is of one model
RECORD: Final = "refaug"  # the field of a harness's sample that records stand in
GOLDS: Final = "golds"  # where the sample has the golds, where that can be several places
_VERSION: Final = "record"
_NEWEST: Final = 1
_ITEM: Final = "item"
_REMEDY: Final = "give the log as the harness wrote it"


def record_of(evaluation: Evaluation, item: Mapping[str, Any], golds: str | None = None) -> dict[str, Any]:
    """Return the sealed record of one reply under one metric; `item` is the item that was scored, as JSON."""
    sheet = evaluation.scores[0].as_statistics()
    content = {
        _VERSION: _NEWEST,
        _ITEM: item,
        **{field: sheet[field] for field in ("metric", "signature_full", "references", "corpus_from", "columns")},
        "higher_is_better": sheet["higher_is_better"],
        "system": sheet["systems"][SYSTEM],
        **({"unsuitable": _unsuitable(evaluation)} if evaluation.bad_metrics else {}),
        "data": evaluation.data,
        **({GOLDS: golds} if golds is not None else {}),
    }
    return {**content, SEAL: seal_of(content)}


def _unsuitable(evaluation: Evaluation) -> dict[str, str]:
    bad = evaluation.bad_metrics[0]
    return {"code": bad.code, "message": bad.message}


@dataclass(frozen=True, kw_only=True)
class SampleRecord:
    """A record that was read from a log, checked as far as a verification needs."""

    where: str
    document: Mapping[str, Any]
    signature: Signature
    item: Item

    @classmethod
    def read(cls, document: object, where: str) -> Self:
        """Check a record; BadInput names the first field that is wrong."""
        if not isinstance(document, dict):
            raise BadInput(f"{where}: a record was expected, not {_shown(document)}", remedy=_REMEDY)
        version = document.get(_VERSION)
        if isinstance(version, int) and version > _NEWEST:
            raise BadInput(
                f"{where}.{_VERSION}: its form is {version}; this refaug reads up to {_NEWEST}",
                remedy="read it with the refaug that wrote it, or upgrade",
            )
        if version != _NEWEST:
            raise BadInput(f"{where}.{_VERSION}: {_shown(version)}; {_NEWEST} was expected", remedy=_REMEDY)
        try:
            signature = Signature.parse(_text(document, "signature_full", where))
        except RefaugError as error:
            raise BadInput(f"{where}.signature_full: {error.message}", remedy=_REMEDY) from None
        row = document.get(_ITEM)
        if not isinstance(row, dict):
            raise BadInput(f"{where}.{_ITEM}: an item was expected, not {_shown(row)}", remedy=_REMEDY)
        item = parse_item(row, where=where, line=0, fallback_id="1")
        if isinstance(item, BadItem):
            raise BadInput(f"{where}.{_ITEM}.{item.field}: {item.message}", remedy=_REMEDY)
        if set(item.replies) != {SYSTEM}:
            raise BadInput(f"{where}.{_ITEM}.replies: one of {SYSTEM} was expected", remedy=_REMEDY)
        return cls(where=where, document=document, signature=signature, item=item)

    @cached_property
    def is_sealed(self) -> bool:
        """Whether the record is as it was written."""
        return has_seal(self.document, self.document.get(SEAL))

    @property
    def reply(self) -> str:
        """The reply that was scored."""
        return self.item.replies[SYSTEM]

    @property
    def score(self) -> float | None:
        """The score of the reply; BadInput where it is no number."""
        return score_of(self.document, self.where)

    def stored_reply(self, name: str) -> dict[str, object]:
        """Return the reply as a score file lists it, under the id of the sample."""
        problems = self._system().get("problems") or [{}]
        listed = {key: text for key, text in problems[0].items() if key in ("problem", "message")}
        return {"id": name, "score": self.score, **listed}

    def batch(self, name: str) -> dict[str, Any]:
        """Return the sums as a batch for `combine`, under the id of the sample."""
        return _batch(self.document, name)

    def sums(self) -> Sequence[float] | None:
        """Return the sums that the corpus score adds; None for a reply without a score."""
        rows = self._system().get("rows")
        return rows[0] if isinstance(rows, list) and rows and isinstance(rows[0], list) else None

    def _system(self) -> Mapping[str, Any]:
        system = self.document.get("system")
        if not isinstance(system, dict):
            raise BadInput(f"{self.where}.system: an object was expected, not {_shown(system)}", remedy=_REMEDY)
        return system


def score_of(record: Mapping[str, Any], where: str = RECORD) -> float | None:
    """Return the score in a record; BadInput where it is no number."""
    system = record.get("system")
    scores = system.get("scores") if isinstance(system, dict) else None
    score = scores[0] if isinstance(scores, list) and len(scores) == 1 else "no score"
    if score is None:
        return None
    if isinstance(score, bool) or not isinstance(score, int | float) or not math.isfinite(score):
        raise BadInput(f"{where}.system.scores: one number was expected, not {_shown(scores)}", remedy=_REMEDY)
    return float(score)


def corpus_of(records: Sequence[Mapping[str, Any]]) -> float | None:
    """Return the corpus score of the replies behind records of one metric; None where none has a score.

    BadInput where the records are of several signatures, or of another release.
    """
    from refaug.scoring.combine import combine  # noqa: PLC0415  compiles

    if not records or all(score_of(record) is None for record in records):
        return None
    combined: Any = combine([_batch(record, str(number)) for number, record in enumerate(records)])
    corpus = combined["scores"][0]["systems"][SYSTEM]["corpus"]
    return None if corpus is None else float(corpus)


def _batch(record: Mapping[str, Any], name: str) -> dict[str, Any]:
    unsuitable = {"unsuitable": record["unsuitable"]} if "unsuitable" in record else {}
    sheet = {field: record.get(field) for field in ("metric", "signature_full", "references", "columns")}
    system = record.get("system")
    rows = {**system, "items": [name]} if isinstance(system, dict) else system
    return {"stats": [{**sheet, "systems": {SYSTEM: rows}, **unsuitable}], "data": record.get("data")}


def _text(document: Mapping[str, Any], field: str, where: str) -> str:
    text = document.get(field)
    if not isinstance(text, str):
        raise BadInput(f"{where}.{field}: a text was expected, not {_shown(text)}", remedy=_REMEDY)
    return text


def _shown(content: object) -> str:
    text = repr(content)
    return text if len(text) <= 60 else f"{text[:57]}…"
