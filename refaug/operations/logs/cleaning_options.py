"""How the texts of a log are cleaned: options of ingests and of the nightly job."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, ClassVar, Final, Literal, get_args

from refaug.core.errors import Usage
from refaug.core.options.declaring import Doc, Ge, Le, Length, Lines, Metavar, Panel
from refaug.core.options.decoding import Options
from refaug.operations.operation import Text

if TYPE_CHECKING:
    from refaug.logs.ingest.order import IngestOrder

Rule = Literal[
    "entities",
    "control",
    "nfc",
    "markup",
    "urls",
    "emails",
    "users",
    "spaces",
    "deleted",
    "bots",
    "too-long",
    "too-short",
    "not-text",
    "script",
    "flood",
]
RULES: Final[tuple[Rule, ...]] = get_args(Rule)


@dataclass(frozen=True, kw_only=True)
class CleaningOptions(Options):
    """How the texts of a log are cleaned."""

    panel: ClassVar[Panel] = Panel("Cleaning", rare=("only_rules", "min_chars", "max_chars", "flood_cap"))

    language: Annotated[
        str | None, Length(1, 35), Doc("Drop messages in another script than this language's, e.g. en, ja.")
    ] = None
    no_rules: Annotated[
        tuple[Rule, ...], Metavar("RULE"), Doc(f"Cleaning rules that are switched off. Rules: {', '.join(RULES)}.")
    ] = ()
    only_rules: Annotated[
        tuple[Rule, ...] | None,
        Metavar("RULES"),
        Doc("Run these cleaning rules only, in a command with commas between them; an empty list, or `none`: no rule."),
    ] = None
    min_chars: Annotated[int, Ge(0), Le(10_000_000), Doc("Shorter messages are dropped.")] = 1
    max_chars: Annotated[int, Ge(1), Le(10_000_000), Doc("Longer messages are dropped.")] = 2_000
    flood_cap: Annotated[int, Ge(1), Le(60_000), Doc("Of near-identical messages this many are kept.")] = 1_000
    block_speakers: Annotated[tuple[Text, ...], Lines(), Metavar("NAME"), Doc("Drop what these speakers said.")] = ()

    def check(self) -> None:
        """Refuse rules that contradict each other, and limits with nothing between them."""
        if self.no_rules and self.only_rules is not None:
            raise Usage("no_rules and only_rules contradict each other", remedy="use one of them", field="only_rules")
        if self.min_chars > self.max_chars:
            message = f"{self.min_chars:,} and max_chars {self.max_chars:,} leave nothing between them"
            raise Usage(message, field="min_chars")

    def ingest_order(self, log: str, sources: Sequence[str], *, memory: int, workers: int | None) -> IngestOrder:
        """Return the ingest of sources in a recognised format."""
        from refaug.logs.ingest.cleaning import CleaningSettings  # noqa: PLC0415  numpy
        from refaug.logs.ingest.order import IngestOrder  # noqa: PLC0415  pyarrow

        every = tuple(rule for rule in RULES if rule not in self.no_rules)
        return IngestOrder(
            sources=tuple(sources),
            log=log,
            cleaning=CleaningSettings(
                rules=every if self.only_rules is None else self.only_rules,
                language=self.language,
                min_chars=self.min_chars,
                max_chars=self.max_chars,
                flood_cap=self.flood_cap,
            ),
            blocked_speakers=frozenset(self.block_speakers),
            memory=memory,
            workers=workers,
        )
