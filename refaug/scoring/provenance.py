"""Where references come from: what signatures say of retrieval and rating, written into items and read back.

    k:15|mode:embedding-utterance|gold:one|parrot:rated|…|index:chat@2026-11-20.1#9f2c41d07e12|vectors.:glove@…

Items carry this line as `provenance`, so scores have one signature, whether the references were retrieved for the
scores, came from a file that `refaug sets references` wrote, or from a frozen set.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import cache, lru_cache
from typing import TYPE_CHECKING, Any, Final, TypeVar

from refaug.core.errors import BadInput, Usage
from refaug.core.options.declaring import Signed
from refaug.core.options.decoding import from_texts
from refaug.core.options.describing import OptionField, options_of
from refaug.core.records import Item
from refaug.indexer.search.search_settings import SearchSettings
from refaug.metrics.models.model_scores import signed_runtime
from refaug.metrics.signature import read_fields, write_fields
from refaug.rater.rating_settings import RatingSettings
from refaug.scoring.settings import OF_RATINGS, AugmentSettings

if TYPE_CHECKING:
    from refaug.indexer.search.index import ReferenceIndex
    from refaug.rater.rating import Rater

_Read = TypeVar("_Read")
MIXED: Final = "mixed"
_LONGEST: Final = 20_000  # characters; ours have a tenth of that, even with many excluded logs
_RESERVED: Final = frozenset({"refaug", "full"})  # keys that end a signature


@dataclass(frozen=True, kw_only=True)
class Provenance:
    """How references were retrieved, rated and weighted; `settings` stand in both forms of a signature."""

    settings: Mapping[str, str] = field(default_factory=dict)
    details: Mapping[str, str] = field(default_factory=dict)

    @property
    def line(self) -> str:
        """The line that items carry; empty where nothing is known."""
        return "|".join(write_fields(self.settings, self.details))

    @staticmethod
    @lru_cache(maxsize=64)  # all items of a file have the same line
    def parse(line: str) -> Provenance:
        """Read a line back; BadInput where it is none."""
        if len(line) > _LONGEST:
            raise BadInput(f"a provenance of {len(line):,} characters", remedy="as refaug sets references writes it")
        settings, details = read_fields(line.split("|"), line) if line else ({}, {})
        if reserved := _RESERVED & {*settings, *details}:
            raise BadInput(
                f"{min(reserved)!r} is not part of a provenance", remedy="as refaug sets references writes it"
            )
        return Provenance(settings=settings, details=details)

    @classmethod
    def of_lines(cls, lines: Iterable[str]) -> Provenance:
        """Return what items with these lines have in common: all of it, or that several ways are mixed."""
        distinct = sorted(set(lines))
        if len(distinct) > 1:
            return cls(settings={"references": _mixed(distinct)})
        return cls.parse(distinct[0] if distinct else "")

    @classmethod
    def of_items(cls, items: Iterable[Item]) -> Provenance:
        """Return the provenance of the references of items."""
        return cls.of_lines({test_item.provenance for test_item in items})

    @property
    def said(self) -> dict[str, str]:
        """What it says, by its keys."""
        return {**self.details, **self.settings}

    @property
    def warnings(self) -> tuple[str, ...]:
        """What to know of references from several sources."""
        if not self.settings.get("references", "").startswith(MIXED):
            return ()
        return ("the references of the items were made in several ways, and the signature names none of them",)


def with_provenance(test_item: Item, line: str) -> Item:
    """Return the item with the provenance of its references."""
    return test_item if test_item.provenance == line else replace(test_item, provenance=line)


@lru_cache(maxsize=64)
def canonical_line(line: str) -> str:
    """Return the line as refaug writes it; BadInput where it is no provenance."""
    return Provenance.parse(line).line


def _mixed(distinct_lines: Iterable[str]) -> str:
    """Return what stands for several lines."""
    digest = hashlib.sha256("\n".join(distinct_lines).encode())
    return f"{MIXED}#{digest.hexdigest()[:12]}"


def join_reply_provenance(lines_by_system: Iterable[Mapping[str, str]]) -> dict[str, str]:
    """Return the line of every system that has any: its only one, or that several are mixed.

    An empty line stands for replies that no bot of refaug made.
    """
    lines = ReplyLines()
    for line_of_system in lines_by_system:
        lines.add(line_of_system, line_of_system)
    return lines.joined()


class ReplyLines:
    """The lines that say which bots of refaug made the replies of each system, collected item by item."""

    def __init__(self) -> None:
        self._distinct = dict[str, set[str]]()

    def add(self, systems: Iterable[str], lines: Mapping[str, str]) -> None:
        """Add the lines of the systems that reply to an item; no line stands for a reply that no bot made."""
        for system in systems:
            self._distinct.setdefault(system, set()).add(lines.get(system, ""))

    def joined(self) -> dict[str, str]:
        """Return the line of every system that has any: its only one, or that several are mixed."""
        return {
            system: next(iter(lines)) if len(lines) == 1 else _mixed(sorted(lines))
            for system, lines in self._distinct.items()
            if lines != {""}
        }


def reply_provenance_json(lines: Mapping[str, str]) -> dict[str, object]:
    """Return the part of an answer about bots, which is not there where no bot made a reply."""
    return {"reply_provenance": dict(lines)} if lines else {}


class ProvenanceWatch:
    """Collects the provenance of items as they pass, which need not be in memory at once."""

    def __init__(self) -> None:
        self._lines = set[str]()

    def over(self, items: Iterable[_Read]) -> Iterator[_Read]:
        """Yield the items unchanged."""
        for test_item in items:
            if isinstance(test_item, Item):
                self._lines.add(test_item.provenance)
            yield test_item

    @property
    def provenance(self) -> Provenance:
        """The provenance of all items so far."""
        return Provenance.of_lines(self._lines)


# ── Of a search ───────────────────────────────────────────────────────────────────────────────────────────────────────


def references_provenance(index: ReferenceIndex, rater: Rater | None, settings: AugmentSettings) -> Provenance:
    """Return how references of this index are found with these settings, and rated by this rater."""
    manifest, rates = index.manifest, rater is not None and settings.needs_rater
    models, runtime = {"index": index.spec}, dict[str, str]()
    if rater is not None and rates:
        models["rater"], runtime = rater.spec, signed_runtime(rater.runtime)
    of_words = {
        "norm-words": "yes" if manifest.sentence.norm_words else "no",
        "oov": manifest.sentence.oov,
        "weighting": manifest.sentence.weighting,
    }
    words = {
        "vectors": manifest.vectors.spec,
        **({} if manifest.vectors.kind == "encoder" else of_words),
        "index-tok": manifest.tokenizer,
    }
    return Provenance(
        settings={**_signed(settings, is_short=True), **models},
        details={**{key: text for key, text in words.items() if text}, **_signed(settings, is_short=False), **runtime},
    )


def without_shards(provenance: Provenance, index: ReferenceIndex, missing: Collection[str]) -> Provenance:
    """Return the provenance of references that some shards had no part in: it names them, and how many there are."""
    if not missing:
        return provenance
    named = f"{','.join(sorted(missing, key=int))}/{len(index.manifest.main_segments)}"
    return Provenance(settings={**provenance.settings, "missing": named}, details=provenance.details)


def settings_of_provenance(provenance: Provenance) -> AugmentSettings:
    """Return the settings that a provenance has; the inverse of `references_provenance`.

    What some shards lacked cannot be had again, so a provenance that names them is refused. KeyError where one is
    missing, Usage where one has no meaning here. What a short signature lacks is as by default.
    """
    if "missing" in provenance.settings:
        raise Usage(
            f"the references were found without the shards {provenance.settings['missing']}",
            remedy="find them again, with all shards",
        )
    texts, values = provenance.said, dict[str, Any]()
    for key, option, sign in _signed_options():
        if key not in texts and sign.is_short and option.name not in OF_RATINGS:
            raise KeyError(key)
        if key in texts and texts[key] != sign.unset:
            is_flag = texts[key] in sign.flags
            values[option.name] = bool(sign.flags.index(texts[key])) if is_flag else texts[key]
    return from_texts(AugmentSettings, values)


@lru_cache(maxsize=64)  # most requests have the same settings
def _signed(settings: AugmentSettings, *, is_short: bool) -> Mapping[str, str]:
    """Return what one form of a signature says of the settings that have an effect."""
    texts = {
        key: _as_text(getattr(settings, option.name), sign)
        for key, option, sign in _signed_options()
        if sign.is_short == is_short and option.name not in settings.idle
    }
    return {key: text for key, text in texts.items() if text}


@cache
def _signed_options() -> list[tuple[str, OptionField, Signed]]:
    """Return the settings that stand in signatures by their keys: of finding references, of weights, of ratings."""
    found, rated = options_of(SearchSettings), options_of(RatingSettings)
    weighed = [option for option in options_of(AugmentSettings) if option not in {*found, *rated}]
    options = [(option, option.signed) for option in (*found, *weighed, *rated)]
    return [(sign.key or option.name.replace("_", "-"), option, sign) for option, sign in options if sign is not None]


def _as_text(setting: Any, sign: Signed) -> str:
    if setting is None:
        return sign.unset
    if isinstance(setting, bool):
        return sign.flags[setting]
    if isinstance(setting, float):
        return repr(setting).removesuffix(".0")  # just enough digits to tell it from every other number
    if isinstance(setting, datetime):
        return setting.isoformat()
    return ",".join(setting) if isinstance(setting, tuple) else str(setting)
