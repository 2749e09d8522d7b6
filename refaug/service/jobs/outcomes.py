"""What came of a job in a few words, from its result: for lists of jobs on pages and in commands."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any, Final

Result = Mapping[str, Any]

_NOTHING_NEW: Final = "nothing new"
_MOST_CHARS: Final = 300
_DONE, _FAILED, _CANCELLED = "done", "failed", "cancelled"  # the states of jobs that have ended


def outcome_of(kind: str, state: str, result: Result | None, error: Result | None) -> str | None:
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
        return _SENTENCES.get(kind, _other)(result or {})
    return _DONE


def _count(number: int, noun: str) -> str:
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


def _version(result: Result, name: str) -> str:
    act = "published" if result.get("published") else "made, and did not publish,"
    return f"{act} {result[name]}@{result['version']}"


def _night(result: Result) -> str:
    if result["version"] is None:
        return _NOTHING_NEW
    added = result["ingest"]["pairs_added"]
    more = f", +{_count(added, 'pair')}" if added else ""
    return f"{_version(result, 'index')}{more}"


def _index(result: Result) -> str:
    if result["version"] is None:
        return _NOTHING_NEW
    changed, gone = result.get("changed"), result.get("gone")
    parts = [f"{_count(changed, 'utterance')} new or changed"] if changed else []
    parts += [f"{_count(gone, 'utterance')} removed"] if gone else []
    if changed is None and gone is None:
        parts = [_count(result["pairs"], "pair")]
    again = "" if result.get("new", True) else ", which was there already"
    return f"{_version(result, 'index')}{again}: {', '.join(parts) or 'nothing changed'}"


def _ingest(result: Result) -> str:
    added = result["pairs_added"]
    return f"+{_count(added, 'pair')} into log {result['log']}" if added else _NOTHING_NEW


def _freeze(result: Result) -> str:
    left_out = len(result["problems"]) + result["more_problems"]
    bad = f", {_count(left_out, 'item')} left out" if left_out else ""
    begin = "froze set" if result["new"] else "was there already: set"
    return f"{begin} {result['set'][:8]}, {_count(result['items'], 'item')}{bad}"


def _score(result: Result) -> str:
    replies, metrics = result.get("replies", 0), len(result["scores"])
    return f"scored {replies:,} {'reply' if replies == 1 else 'replies'} by {_count(metrics, 'metric')}"


def _agreement(result: Result) -> str:
    return f"agreement of {_count(len(result['metrics']), 'metric')}"


def _replies(result: Result) -> str:
    return f"replies of {_count(len(result['bots']), 'bot')} to {_count(result['items'], 'item')}"


def _erasure(result: Result) -> str:
    parts = [_count(result["removed"].get("pairs") or 0, "pair")]
    parts += [_count(result["posted"], "waiting dialogue")] if result["posted"] else []
    missing = {noun.removesuffix("s"): number for noun, number in (result.get("not_found") or {}).items() if number}
    nowhere = ", ".join(_count(number, noun) for noun, number in missing.items())
    return f"removed {' and '.join(parts)}{f'; {nowhere} not found' if nowhere else ''}"


def _old_versions(result: Result) -> str:
    removed = result["removed"]
    return f"removed {_count(len(removed), 'old version')}" if removed else "no old version to remove"


def _encoding(result: Result) -> str:
    texts = result.get("new", result.get("texts"))
    return f"encoded {_count(texts, 'text')}" if isinstance(texts, int) else "encoded its texts"


def _vectors(result: Result) -> str:
    return f"{_version(result, 'vectors')}: {_count(result['words'], 'word')}"


def _rater(result: Result) -> str:
    return _version(result, "rater")


def _other(result: Result) -> str:
    """Return what kinds of extras and of other packages have in common."""
    if isinstance(talks := result.get("conversations"), int):
        return _count(talks, "conversation")
    return f"made version {result['version']}" if result.get("version") else _DONE


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
