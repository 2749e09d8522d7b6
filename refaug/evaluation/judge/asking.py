"""What a judge needs to ask its endpoint: stored answers, spending, and the report of progress."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from refaug.bots.endpoint.answer_store import AnswerStore
from refaug.bots.endpoint.chat import ChatRequest, Fault
from refaug.bots.endpoint.client import ClientSettings, Outcome, ask_all
from refaug.bots.endpoint.specification import SUFFIXES, Endpoint, read_endpoint
from refaug.bots.endpoint.spending import DailySpending, DailyTokens, Spending
from refaug.core.errors import NotFound
from refaug.core.files import NAME
from refaug.core.home import Settings
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


# ── Judges by name: files in the folder `judges` of the home, each of which describes an endpoint ─────────────────────

ANSWERS: Final = "answers.db"


def judge_names(home: Settings) -> list[str]:
    """Return the names of the judges in the home."""
    if not home.judges.is_dir():
        return []
    return sorted({path.stem for path in home.judges.iterdir() if path.suffix in SUFFIXES})


def find_judge(home: Settings, text: str) -> Endpoint:
    """Return the judge of a name, or of the path of a file."""
    if text.endswith(SUFFIXES) or "/" in text:
        return read_endpoint(Path(text))
    return find_named_judge(home, text)


def find_named_judge(home: Settings, text: str) -> Endpoint:
    """Return the judge of a name in the home."""
    if NAME.fullmatch(text):
        for suffix in SUFFIXES:
            path = home.judges / f"{text}{suffix}"
            if path.is_file():
                return read_endpoint(path, name=text)
    names = ", ".join(judge_names(home)) or "none so far"
    raise NotFound(
        f"there is no judge {text!r} in {home.judges}",
        remedy=f"its file {text}.toml (docs/judge.md), or the path of a file; here are: {names}",
    )


def answers_path(home: Settings) -> Path:
    """Return the file of the answers that judges gave."""
    return home.judgements / ANSWERS


def spending_path(home: Settings) -> Path:
    """Return the file that counts what judges cost a server each day."""
    return home.judgements / "spending.db"
