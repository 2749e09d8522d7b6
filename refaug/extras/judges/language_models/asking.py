"""What a judge needs to ask its endpoint: stored answers, spending, and the report of progress."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from refaug.bots.endpoint.answer_store import AnswerStore
from refaug.bots.endpoint.chat import ChatRequest, Fault
from refaug.bots.endpoint.client import ClientSettings, Outcome, ask_all
from refaug.bots.endpoint.specification import Endpoint
from refaug.bots.endpoint.spending import DailySpending, DailyTokens, Spending
from refaug.core.progress import Progress, Silent


@dataclass(kw_only=True)
class Asking:
    """An endpoint with everything that goes with asking it; one for a command."""

    endpoint: Endpoint
    answers: Path | None = None  # the file of stored answers; None: none are stored
    client: ClientSettings = field(default_factory=ClientSettings)
    progress: Progress = field(default_factory=Silent)
    days: DailyTokens | None = None  # the limit of a server

    def __post_init__(self) -> None:
        price, budget = self.endpoint.price, self.endpoint.budget
        self.spending = Spending(price, budget) if self.days is None else DailySpending(self.days, price, budget)
        self.faults = Counter[str]()  # the messages of requests without an answer

    def ask(self, requests: Sequence[ChatRequest]) -> list[Outcome]:
        """Return an outcome for each request, in order."""
        self.progress.stage(f"ask {self.endpoint.name}", len(set(requests)), "questions")
        outcomes = self._ask(requests, None)
        self.faults.update(outcome.message for outcome in outcomes if isinstance(outcome, Fault))
        return outcomes

    def _ask(self, requests: Sequence[ChatRequest], store: AnswerStore | None) -> list[Outcome]:
        if store is None and self.answers is not None:
            with AnswerStore(self.answers) as opened:
                return self._ask(requests, opened)
        return ask_all(
            self.endpoint,
            requests,
            settings=self.client,
            store=store,
            spending=self.spending,
            on_outcome=lambda _: self.progress.advance(1),
            on_tick=lambda: self.progress.advance(0),
        )

    def remarks(self) -> Iterator[str]:
        """Yield what was asked and what it cost, and the commonest fault."""
        yield f"judge {self.endpoint.name}: {self.spending.line}"
        if self.faults:
            message, count = self.faults.most_common(1)[0]
            total = f"{self.faults.total():,} questions without an answer"
            yield f"judge {self.endpoint.name}: {total}; {count:,} times: {message}"
