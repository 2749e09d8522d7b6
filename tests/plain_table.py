"""The tables of an index in plain Python, from their definition: what refaug.indexer.pair_table is held to."""

from __future__ import annotations

import hashlib
from collections import defaultdict
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

from refaug.core.text.normalisation import normalise
from refaug.logs.pairs import text_key

NO_TIME = -(2**63)


@dataclass
class PlainTable:
    """The columns of every file, in order."""

    utterances: list[str] = field(default_factory=list)
    utterance_key: list[int] = field(default_factory=list)
    utterance_sha: list[int] = field(default_factory=list)
    fingerprint: list[int] = field(default_factory=list)
    pair_start: list[int] = field(default_factory=list)
    responses: list[str] = field(default_factory=list)
    response_key: list[int] = field(default_factory=list)
    response_sha: list[int] = field(default_factory=list)
    occurrence_start: list[int] = field(default_factory=list)
    dialogues: list[str] = field(default_factory=list)
    positions: list[str] = field(default_factory=list)
    occurrence_log: list[int] = field(default_factory=list)
    occurrence_dialogue: list[int] = field(default_factory=list)
    occurrence_time: list[int] = field(default_factory=list)
    speakers: list[str] = field(default_factory=list)


def sha(text):
    return int(hashlib.sha256(text.encode()).hexdigest()[:16], 16)


def micros(time):
    return (time - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(microseconds=1)


def first_half_of_md5(text):
    return int.from_bytes(hashlib.md5(text.encode()).digest()[:8], "little")


def fingerprint(log, row):
    time = "" if row["time"] is None else str(micros(row["time"]))
    fields = (log, row["dialogue"], row["position"], row["response"], row["utterance"], time)
    speaker = () if row["response_speaker"] is None else (row["response_speaker"],)
    return first_half_of_md5("\x1f".join((*fields, *speaker)))


def is_erased(log, row, pairs, dialogues, speakers):
    """Whether a row may not be shown; what is erased is named here, not hashed."""
    return (
        f"{log}/{row['dialogue']}#{row['position']}" in pairs
        or row["dialogue"] in dialogues
        or row["utterance_speaker"] in speakers
        or row["response_speaker"] in speakers
    )


def plain_table(logs, *, keys=None, pairs=(), dialogues=(), speakers=()):
    """Tables of [(name of a log, its rows), …]; rows are dictionaries as PAIR_SCHEMA has them."""
    groups = defaultdict(lambda: defaultdict(list))
    for place, (log, rows) in enumerate(logs):
        for row in rows:
            key = text_key(normalise(row["utterance"]))
            if (keys is None or key in keys) and not is_erased(log, row, pairs, dialogues, speakers):
                groups[key][text_key(normalise(row["response"]))].append((log, row, place))
    table = PlainTable()
    for key, responses in sorted(groups.items(), key=lambda group: _place_of(group[0], _utterances(group[1]))):
        occurrences = [one for group in responses.values() for one in group]
        table.utterances.append(shown := min(_utterances(responses), key=sha))
        table.utterance_key.append(key)
        table.utterance_sha.append(sha(shown))
        table.fingerprint.append(sum(fingerprint(log, row) for log, row, _ in occurrences) % 2**64)
        table.pair_start.append(len(table.responses))
        for response, group in sorted(responses.items(), key=lambda pair: _place_of(pair[0], _responses(pair[1]))):
            table.responses.append(shown := min(_responses(group), key=sha))
            table.response_key.append(response)
            table.response_sha.append(sha(shown))
            table.occurrence_start.append(len(table.dialogues))
            for _, row, place in sorted(group, key=_log_dialogue_position):
                table.dialogues.append(row["dialogue"])
                table.positions.append(row["position"])
                table.occurrence_log.append(place)
                table.occurrence_dialogue.append(first_half_of_md5(row["dialogue"]))
                table.speakers.append(row["response_speaker"] or "")
                table.occurrence_time.append(NO_TIME if row["time"] is None else micros(row["time"]))
    table.pair_start.append(len(table.responses))
    table.occurrence_start.append(len(table.dialogues))
    return table


def _utterances(responses):
    return [row["utterance"] for group in responses.values() for _, row, _ in group]


def _responses(group):
    return [row["response"] for _, row, _ in group]


def _place_of(key, texts):
    return min(map(sha, texts)), key


def _log_dialogue_position(occurrence):
    log, row, _ = occurrence
    return log, row["dialogue"].encode(), row["position"].encode()
