"""What came of a job in a few words, from its result: for lists of jobs on pages and in commands."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any, Final

Result = Mapping[str, Any]

_NOTHING_NEW: Final = "nothing new"
_MOST_CHARS: Final = 300
_DONE, _FAILED, _CANCELLED = "done", "failed", "cancelled"  # the states of jobs that have ended


def outcome_of(kind: str, state: str, facts: Result | None, error: Result | None) -> str | None:
    """Return what came of a job; None while it waits or runs.

    A result of an older version may lack what a sentence tells: then the job is "done".
    """
    if state == _FAILED:
        return str((error or {}).get("message") or "failed")[:_MOST_CHARS]
    if state == _CANCELLED:
        return "stopped before its end"
    if state != _DONE:
        return None
    with suppress(KeyError, TypeError, ValueError, AttributeError):
        return _SENTENCES.get(kind, _other)(facts or {})
    return _DONE


def _count(number: int, noun: str) -> str:
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


def _version(facts: Result, name: str) -> str:
    act = "published" if facts.get("published") else "made, and did not publish,"
    return f"{act} {facts[name]}@{facts['version']}"


def _night(facts: Result) -> str:
    if facts["version"] is None:
        return _NOTHING_NEW
    added = facts["ingest"]["pairs_added"]
    more = f", +{_count(added, 'pair')}" if added else ""
    return f"{_version(facts, 'index')}{more}"


def _index(facts: Result) -> str:
    if facts["version"] is None:
        return _NOTHING_NEW
    changed, gone = facts.get("changed"), facts.get("gone")
    parts = [f"{_count(changed, 'utterance')} new or changed"] if changed else []
    parts += [f"{_count(gone, 'utterance')} removed"] if gone else []
    if changed is None and gone is None:
        parts = [_count(facts["pairs"], "pair")]
    again = "" if facts.get("new", True) else ", which was there already"
    return f"{_version(facts, 'index')}{again}: {', '.join(parts) or 'nothing changed'}"


def _ingest(facts: Result) -> str:
    added = facts["pairs_added"]
    return f"+{_count(added, 'pair')} into log {facts['log']}" if added else _NOTHING_NEW


def _freeze(facts: Result) -> str:
    left_out = len(facts["problems"]) + facts["more_problems"]
    bad = f", {_count(left_out, 'item')} left out" if left_out else ""
    begin = "froze set" if facts["new"] else "was there already: set"
    return f"{begin} {facts['set'][:8]}, {_count(facts['items'], 'item')}{bad}"


def _score(facts: Result) -> str:
    replies, metrics = facts.get("replies", 0), len(facts["scores"])
    return f"scored {replies:,} {'reply' if replies == 1 else 'replies'} by {_count(metrics, 'metric')}"


def _agreement(facts: Result) -> str:
    return f"agreement of {_count(len(facts['metrics']), 'metric')}"


def _replies(facts: Result) -> str:
    return f"replies of {_count(len(facts['bots']), 'bot')} to {_count(facts['items'], 'item')}"


def _erasure(facts: Result) -> str:
    parts = [_count(facts["removed"].get("pairs") or 0, "pair")]
    parts += [_count(facts["posted"], "waiting dialogue")] if facts["posted"] else []
    missing = {noun.removesuffix("s"): number for noun, number in (facts.get("not_found") or {}).items() if number}
    nowhere = ", ".join(_count(number, noun) for noun, number in missing.items())
    return f"removed {' and '.join(parts)}{f'; {nowhere} not found' if nowhere else ''}"


def _old_versions(facts: Result) -> str:
    removed = facts["removed"]
    return f"removed {_count(len(removed), 'old version')}" if removed else "no old version to remove"


def _encoding(facts: Result) -> str:
    texts = facts.get("new", facts.get("texts"))
    return f"encoded {_count(texts, 'text')}" if isinstance(texts, int) else "encoded its texts"


def _vectors(facts: Result) -> str:
    return f"{_version(facts, 'vectors')}: {_count(facts['words'], 'word')}"


def _rater(facts: Result) -> str:
    return _version(facts, "rater")


def _other(facts: Result) -> str:
    """Return what kinds of extras and of other packages have in common."""
    if isinstance(talks := facts.get("conversations"), int):
        return _count(talks, "conversation")
    return f"made version {facts['version']}" if facts.get("version") else _DONE


_SENTENCES: Final[Mapping[str, Callable[[Result], str]]] = {
    "nightly": _night,
    "index-build": _index,
    "index-update": _index,
    "index-compact": _index,
    "index-encode": _encoding,
    "ingest": _ingest,
    "vectors": _vectors,
    "rater-train": _rater,
    "freeze": _freeze,
    "score": _score,
    "meta": _agreement,
    "replies": _replies,
    "erase": _erasure,
    "gc": _old_versions,
}
