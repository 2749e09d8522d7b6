"""Logs of other harnesses: samples_*.jsonl of lm-evaluation-harness, and .eval or .json of inspect, read without them.

Beside the scores of any metric, samples may carry records of ours (`sample_records`). What the harness says of a sample
(reply, item, score) is compared with the record while it is read: `ScoredSample.contradictions` says where they differ.
A sample that cannot be read is a problem of the log, which names it; the others are read all the same.
"""

from __future__ import annotations

import io
import json
import math
import struct
import zipfile
import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final

import zstandard

from refaug.core.errors import BadInput, RefaugError
from refaug.core.records import Item, Reference
from refaug.scoring.items import BadItem, parse_item
from refaug.scoring.score_files.sample_records import GOLDS, RECORD, SampleRecord

LM_EVAL: Final = "lm-eval"
INSPECT: Final = "inspect"
DOC: Final = "doc"  # where a sample of lm-eval has its golds, unless it is the target
CORPUS: Final = "corpus"  # the metric of inspect that has the corpus score
_ITEM_FIELDS: Final = ("id", "utterance", "turns", "references", "exclude", "provenance")
_INSPECT_VERSION: Final = 2
_ZSTD: Final = 93  # a method of zip that Python's library reads from 3.14 on
_LOCAL_HEADER: Final = struct.Struct("<26xHH")
_MOST_BYTES: Final = 1 << 30  # of one sample
_LETTERS: Final = {"C": 1.0, "P": 0.5, "I": 0.0, "N": 0.0}  # values of inspect's scorers
_SCORED_AS: Final = "as it was scored"


@dataclass(frozen=True, kw_only=True)
class ScoredSample:
    """The score of one sample by one metric."""

    id: str  # of the sample; with its epoch or filter, where it has several
    context: str  # the sample whose scores belong together
    metric: str  # as the harness names it
    score: float | None
    record: SampleRecord | None
    contradictions: tuple[str, ...] = ()  # where the harness's own fields are not what was scored
    labels: Mapping[str, Any] = field(default_factory=dict)  # fields of the sample, which may name a cluster


@dataclass(frozen=True, kw_only=True)
class HarnessLog:
    """The scores of one log."""

    harness: str
    shown_name: str
    samples: tuple[ScoredSample, ...]
    problems: tuple[str, ...]  # what could not be read
    corpus: Mapping[str, float]  # the harness's corpus score, by metric

    def by_metric(self) -> dict[str, list[ScoredSample]]:
        """Return the samples of each metric, in the order of the log."""
        groups = dict[str, list[ScoredSample]]()
        for sample in self.samples:
            groups.setdefault(sample.metric, []).append(sample)
        return groups


def read_log(path: Path, shown_name: str) -> HarnessLog | None:
    """Return the log that a file is, or None where it is none; BadInput where it is damaged as a whole."""
    with path.open("rb") as file:
        start = file.read(1 << 16)
    if start.startswith(b"PK"):
        return _eval_log(path, shown_name)
    if b'"filtered_resps"' in start.partition(b"\n")[0] or (b'"doc_id"' in start and start.startswith(b'{"doc_id"')):
        return _lm_eval_log(path, shown_name)
    if b'"eval_id"' in start:
        return _json_log(path, shown_name)
    return None


# ── What an item is in a sample ───────────────────────────────────────────────────────────────────────────────────────


def item_of_doc(doc: Mapping[str, Any]) -> dict[str, Any]:
    """Return the item that a document of lm-evaluation-harness is: its fields that items have."""
    item = {name: doc[name] for name in _ITEM_FIELDS if doc.get(name) is not None}
    item["references"] = [_without_empty(reference) for reference in item.get("references") or ()]
    return item


def item_of_sample(text: str, target: Sequence[str], metadata: Mapping[str, Any] | None) -> dict[str, Any]:
    """Return the item that a sample of inspect is: its metadata, else its input and its targets."""
    item = item_of_doc(metadata or {})
    if not item["references"]:
        item["references"] = list(target)
    return item if "utterance" in item or "turns" in item else {**item, "utterance": text}


def _without_empty(reference: Any) -> Any:
    """Return a reference without fields that are null, which columns of data sets give to every row."""
    if not isinstance(reference, dict):
        return reference
    return {name: content for name, content in reference.items() if content is not None}


def _contradictions(record: SampleRecord, reply: object, item: Mapping[str, Any], where: str) -> Iterator[str]:
    """Yield where the harness's own fields are not those of the record."""
    if reply != record.reply:
        yield f"{where}: its reply is {_shown(reply)}, {_shown(record.reply)} {_SCORED_AS}"
    own = parse_item(item, where=where, line=0, fallback_id=record.item.id)
    if isinstance(own, BadItem):
        yield f"{where}: {own.field}: {own.message}"
        return
    before, now = _own_references(record.item), _own_references(own)
    if before != now:
        yield f"{where}: its references are {_shown(now)}, {_shown(before)} {_SCORED_AS}"
    if own.turns != record.item.turns:
        yield f"{where}: its turns are {_shown(own.turns)}, {_shown(record.item.turns)} {_SCORED_AS}"


def _own_references(item: Item) -> list[tuple[object, ...]]:
    """Return the references that came with the item, without the weight of one that golds have anyway."""
    return [_facts(reference) for reference in item.references if reference.is_own]


def _facts(reference: Reference) -> tuple[object, ...]:
    weight = 1.0 if reference.weight is None and reference.source.value == "gold" else reference.weight
    return (reference.text, reference.source.value, weight, reference.rating)


def _shown(content: object) -> str:
    text = repr(content)
    return text if len(text) <= 60 else f"{text[:57]}…"


@dataclass(frozen=True)
class _Read:
    """What could be read of a log, sample by sample."""

    samples: list[ScoredSample] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)

    def log(self, harness: str, shown_name: str, corpus: Mapping[str, float] | None = None) -> HarnessLog:
        """Return the log; BadInput where nothing of it could be read."""
        if not self.samples:
            raise BadInput(
                f"{shown_name}: no sample with a score could be read"
                + "".join(f"; {why}" for why in self.problems[:1]),
                remedy="lm_eval --log_samples writes samples_*.jsonl, and inspect eval a log with samples",
            )
        return HarnessLog(
            harness=harness,
            shown_name=shown_name,
            samples=tuple(self.samples),
            problems=tuple(self.problems),
            corpus=corpus or {},
        )


def _required(row: Mapping[str, Any], name: str, kind: type | tuple[type, ...], where: str) -> Any:
    """Return a field; BadInput where it is missing or of another kind, as in logs of another version."""
    content = row.get(name)
    if not isinstance(content, kind):
        wanted = " or ".join(one.__name__ for one in (kind if isinstance(kind, tuple) else (kind,)))
        raise BadInput(
            f"{where}: {name} is {_shown(content)}, a {wanted} was expected: this is a log of another version",
            remedy="a log of lm-eval 0.4 or of inspect 0.3",
        )
    return content


def _number(content: object) -> float | None:
    if isinstance(content, str):
        return _LETTERS.get(content)
    if isinstance(content, bool | int | float) and math.isfinite(content):
        return float(content)
    return None


# ── lm-evaluation-harness ─────────────────────────────────────────────────────────────────────────────────────────────


def _lm_eval_log(path: Path, shown_name: str) -> HarnessLog:
    read, filters = _Read(), set[str]()
    rows = list[tuple[str, Mapping[str, Any]]]()
    with path.open("rb") as lines:
        for number, line in enumerate(lines, 1):
            where = f"{shown_name}, line {number}"
            try:
                row = json.loads(line)
                _required(row if isinstance(row, dict) else {}, "doc", dict, where)
            except ValueError as error:
                read.problems.append(f"{where}: it is not JSON ({error})")
            except BadInput as error:
                read.problems.append(error.message)
            else:
                filters.add(str(row.get("filter")))
                rows.append((where, row))
    for where, row in rows:
        try:
            read.samples.extend(_lm_eval_scores(row, where, has_filters=len(filters) > 1))
        except RefaugError as error:
            read.problems.append(error.message)
    return read.log(LM_EVAL, shown_name)


def _lm_eval_scores(row: Mapping[str, Any], where: str, *, has_filters: bool) -> Iterator[ScoredSample]:
    doc_id = str(_required(row, "doc_id", (int, str), where))
    replies = _required(row, "filtered_resps", list, where)
    name = f"{doc_id}/{row.get('filter')}" if has_filters else doc_id
    for metric in _required(row, "metrics", list, where):
        content = row.get(metric)
        if isinstance(content, dict):
            record = SampleRecord.read(content, f"{where}: {metric}")
            item = item_of_doc(row["doc"]) if content.get(GOLDS) == DOC else {"references": [row.get("target")]}
            wrong = tuple(_contradictions(record, replies[0] if replies else None, item, where))
            yield ScoredSample(
                id=name,
                context=doc_id,
                metric=str(metric),
                score=record.score,
                record=record,
                contradictions=wrong,
                labels=row["doc"],
            )
        elif (score := _number(content)) is not None:
            yield ScoredSample(id=name, context=doc_id, metric=str(metric), score=score, record=None, labels=row["doc"])


# ── inspect ───────────────────────────────────────────────────────────────────────────────────────────────────────────


def _eval_log(path: Path, shown_name: str) -> HarnessLog:
    try:
        with zipfile.ZipFile(path) as archive:
            members = {info.filename: info for info in archive.infolist()}  # the last of a name is the one that counts
    except zipfile.BadZipFile as error:
        raise BadInput(
            f"{shown_name}: it cannot be read as a log of inspect: {error}", remedy="copy it again"
        ) from error
    read, header, summaries = _Read(), dict[str, Any](), list[Any]()
    for name, info in sorted(members.items()):  # they lie there in the order in which samples ended
        is_sample = name.startswith("samples/") and name.endswith(".json")
        if not is_sample and name not in ("header.json", "summaries.json"):
            continue
        where = f"{shown_name}, {name}"
        try:
            content = json.loads(_member(path, info, where))
            if is_sample:
                _add_sample(read, content, where)
            elif name == "header.json":
                header = content
            else:
                summaries = content
        except ValueError as error:
            read.problems.append(f"{where}: it is not JSON ({error})")
        except BadInput as error:
            read.problems.append(error.message)
    if not header:
        read.problems.append(f"{shown_name}: it has no header.json: the run did not end")
    return _inspect_log(read, header, summaries, shown_name)


def _json_log(path: Path, shown_name: str) -> HarnessLog:
    try:
        document = json.loads(path.read_bytes())
    except ValueError as error:
        raise BadInput(f"{shown_name}: it is not JSON ({error})", remedy="copy it again") from error
    read = _Read()
    for number, sample in enumerate(_required(document, "samples", list, shown_name)):
        try:
            _add_sample(read, sample, f"{shown_name}, samples[{number}]")
        except BadInput as error:
            read.problems.append(error.message)
    return _inspect_log(read, document, [], shown_name)


def _inspect_log(read: _Read, header: Mapping[str, Any], summaries: Sequence[Any], shown_name: str) -> HarnessLog:
    if header and header.get("version") != _INSPECT_VERSION:
        read.problems.append(
            f"{shown_name}: version is {_shown(header.get('version'))}, {_INSPECT_VERSION} was expected: this is a log "
            "of another version"
        )
    values = {
        (str(summary.get("id")), summary.get("epoch"), name): score.get("value")
        for summary in summaries
        if isinstance(summary, dict)
        for name, score in (summary.get("scores") or {}).items()
        if isinstance(score, dict)
    }
    run = header.get("eval")
    dataset = run.get("dataset") if isinstance(run, dict) else None
    ids = dataset.get("sample_ids") if isinstance(dataset, dict) else None
    order = {str(name): at for at, name in enumerate(ids if isinstance(ids, list) else ())}
    samples = sorted(
        (_checked_summary(sample, values) for sample in read.samples),
        key=lambda sample: (order.get(sample.context, len(order)), int(sample.id.rpartition("/")[2])),
    )
    if len({sample.id.rpartition("/")[2] for sample in samples}) < 2:  # one epoch: the sample's own id says all
        samples = [replace(sample, id=sample.context) for sample in samples]
    results = header.get("results") or {}
    corpus = {
        str(scored.get("name")): float(found["value"])
        for scored in results.get("scores") or ()
        for metric, found in (scored.get("metrics") or {}).items()
        if metric.rpartition("/")[2] == CORPUS and _number(found.get("value")) is not None
    }
    return replace(read, samples=samples).log(INSPECT, shown_name, corpus)


def _checked_summary(sample: ScoredSample, values: Mapping[tuple[str, Any, str], Any]) -> ScoredSample:
    """Return a sample with the contradiction of its summary, where that has another score."""
    key = (sample.context, int(sample.id.rpartition("/")[2]), sample.metric)
    if sample.record is None or key not in values or _number(values[key]) == sample.score:
        return sample
    wrong = f"sample {sample.id}: its summary has the score {_shown(values[key])}, {sample.score} {_SCORED_AS}"
    return replace(sample, contradictions=(*sample.contradictions, wrong))


def _add_sample(read: _Read, content: Any, where: str) -> None:
    row = content if isinstance(content, dict) else {}
    name, epoch = str(_required(row, "id", (int, str), where)), _required(row, "epoch", int, where)
    scores = _required(row, "scores", dict, where)
    _required(row, "output", dict, where)
    metadata = row.get("metadata") or {}
    attachments = row.get("attachments") or {}
    for metric, score in scores.items():
        if not isinstance(score, dict):
            read.problems.append(f"{where}: scores.{metric} is {_shown(score)}, a dict was expected")
            continue
        held = (score.get("metadata") or {}).get(RECORD)
        common: dict[str, Any] = {"id": f"{name}/{epoch}", "context": name, "labels": metadata}
        if held is not None:
            record = SampleRecord.read(_attached(held, attachments), f"{where}: scores.{metric}")
            wrong = tuple(_inspect_contradictions(record, row, score, where))
            read.samples.append(
                ScoredSample(metric=metric, score=record.score, record=record, contradictions=wrong, **common)
            )
            continue
        content = score.get("value")
        parts = content.items() if isinstance(content, dict) else [(None, content)]
        for part, found in parts:
            if (number := _number(found)) is not None:
                label = metric if part is None else f"{metric}/{part}"
                read.samples.append(ScoredSample(metric=label, score=number, record=None, **common))


def _inspect_contradictions(
    record: SampleRecord, row: Mapping[str, Any], score: Mapping[str, Any], where: str
) -> Iterator[str]:
    attachments = row.get("attachments") or {}
    output = _attached(row["output"], attachments)
    replies = [output.get("completion"), _attached(score.get("answer"), attachments)]
    for choice in output.get("choices") or ():
        said = (choice.get("message") or {}).get("content")
        replies += [said] if isinstance(said, str) else []
    reply = next((text for text in replies if text != record.reply), record.reply)
    target, text = row.get("target"), _attached(row.get("input"), attachments)
    item = item_of_sample(
        text if isinstance(text, str) else record.item.utterance or "",
        [target] if isinstance(target, str) else target or [],
        row.get("metadata"),
    )
    yield from _contradictions(record, reply, item, where)
    if _number(score.get("value")) != record.score:
        yield f"{where}: its score is {_shown(score.get('value'))}, {record.score} {_SCORED_AS}"


def _attached(content: Any, attachments: Mapping[str, Any]) -> Any:
    """Return JSON with long texts back in their places, which inspect may keep apart."""
    if isinstance(content, str) and content.startswith("attachment://"):
        return attachments.get(content.removeprefix("attachment://"), content)
    if isinstance(content, dict):
        return {name: _attached(part, attachments) for name, part in content.items()}
    return [_attached(part, attachments) for part in content] if isinstance(content, list) else content


def _member(path: Path, info: zipfile.ZipInfo, where: str) -> bytes:
    """Return a file of an archive, which may be compressed by Zstandard."""
    try:
        if info.compress_type != _ZSTD:
            with zipfile.ZipFile(path) as archive:
                return archive.read(info)
        with path.open("rb") as file:
            file.seek(info.header_offset)
            name, extra = _LOCAL_HEADER.unpack(file.read(_LOCAL_HEADER.size))
            file.seek(name + extra, 1)
            packed = io.BytesIO(file.read(info.compress_size))
        with zstandard.ZstdDecompressor().stream_reader(packed, read_across_frames=True) as stream:
            content = stream.read(min(info.file_size, _MOST_BYTES))
    except (zipfile.BadZipFile, zstandard.ZstdError, struct.error, zlib.error) as error:
        raise BadInput(f"{where}: it is damaged: {error}", remedy="copy it again") from error
    if zlib.crc32(content) != info.CRC:
        raise BadInput(f"{where}: it is damaged: its checksum does not fit", remedy="copy it again")
    return bytes(content)
