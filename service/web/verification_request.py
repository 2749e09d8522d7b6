"""A request to POST /v1/verifications: scores that came before, reproduced from what they name."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from fastapi import Request
from starlette.responses import Response

from refaug.core.errors import NotFound, TooLarge
from refaug.evaluation.verification.score_file import ScoreFile
from refaug.evaluation.verification.verification import Workplace, verify
from refaug.service.jobs.kinds.sources import require_source
from refaug.service.web.answers import json_response
from refaug.service.web.dependencies import count_items
from refaug.service.web.handling.request_items import ParsedItems, parse_items
from refaug.service.web.handling.scoring_work import DeadlineProgress
from refaug.service.web.schemas.scoring import VerificationIn
from refaug.service.web.state import ServiceState, state_of

_DRAWN_ROWS_PER_ITEM = 500_000  # rows that a bootstrap adds up in the time of a search and a rating


@dataclass(frozen=True, kw_only=True)
class VerificationRequest:
    """A request to verify scores."""

    request: Request
    body: VerificationIn
    deadline: float  # on the clock of `time.monotonic`

    async def answer(self) -> Response:
        """Answer the request; the work has a turn in the queue of long work, since versions are read for it."""
        state = state_of(self.request)
        file = ScoreFile.of(self.body.scores, "scores")
        self._require_within(state, file)
        items = await parse_items(self.body.items, state.serve, on_error="report", some=True)
        count_items(self.request, len(self.body.items))
        progress = DeadlineProgress(self.deadline)
        try:
            with items.faults_named():
                verified = await state.batcher.run(
                    partial(self._verify, state, file, items, progress),
                    items=self._cost(state, file, items),
                    deadline=self.deadline,
                    is_long=True,
                )
        except BaseException:
            progress.is_given_up = True
            raise
        return json_response(verified)

    def _require_within(self, state: ServiceState, file: ScoreFile) -> None:
        """Refuse more metrics or draws than a request for scores may have."""
        if len(file.scores) > state.serve.metrics:
            raise TooLarge(
                f"{len(file.scores):,} metrics are more than the {state.serve.metrics:,} of one request",
                remedy="refaug verify has no such limit",
            )
        draws = max(file.settings(stored).draws for stored in file.scores)
        if draws > state.serve.draws:
            raise TooLarge(
                f"{draws:,} draws are more than the {state.serve.draws:,} of one request",
                remedy="refaug verify has no such limit",
            )

    def _cost(self, state: ServiceState, file: ScoreFile, items: ParsedItems) -> int:
        replies = sum(len(item.replies) for item in items.good) * len(file.scores)
        drawn = max(file.settings(stored).draws for stored in file.scores) * replies / _DRAWN_ROWS_PER_ITEM
        return max(1, min(math.ceil(len(items.good) + drawn), state.serve.queue_items // 4))

    def _verify(
        self, state: ServiceState, file: ScoreFile, items: ParsedItems, progress: DeadlineProgress
    ) -> Mapping[str, Any]:
        workplace = Workplace(home=state.home, find_file=partial(_source, state), threads=state.threads)
        verification = verify(file, items.listed, workplace, progress)
        return verification.with_messages(state.without_paths).as_json()


def _source(state: ServiceState, spec: str) -> Path:
    """Return a file that a metric names, from where sources may lie; its ending is not in the signature."""
    name = spec.partition("#")[0]
    inbox = state.home.home / "inbox"
    names = sorted(path.name for path in inbox.glob(f"{name}.*")) if inbox.is_dir() and "/" not in name else []
    for text in (name, *names):
        if (inbox / text).exists():
            return require_source(text, state.home, state.serve)
    raise NotFound(f"there is no file {name} in inbox/", remedy="put it there")
