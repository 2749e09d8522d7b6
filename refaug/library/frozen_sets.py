"""Frozen sets in a program: scores, and the client's scorer and reward over a transport that stays in the process."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from refaug.core.errors import MissingPart, RefaugError, Usage
from refaug.core.installation import extras_named
from refaug.library.engine import Engine, engine_of
from refaug.library.inputs import SYSTEM, Predictions, predictions_by_system
from refaug.library.results.scores import Scores
from refaug.library.scoring import specifications_of
from refaug.scoring.settings import ScoreSettings

if TYPE_CHECKING:
    from refaug_client import Client, Reward, Scorer

    from refaug.scoring.held_sets.held_set import HeldSet

_URL: Final = "http://in-process"  # what the client is given; nothing is sent there
AnyPath = str | os.PathLike[str]


@extras_named()
def open_set(reference_set: str, *, home: AnyPath | None = None) -> OpenSet:
    """Return a frozen set by its id, or the beginning of it, ready to score against.

    frozen = refaug.open_set("e7043c04b0875353")
    frozen.score(replies, items=ids, metric="upsilon-bleu").corpus
    """
    engine = engine_of(home)
    return OpenSet(engine.held_sets.get(reference_set), engine)


class OpenSet:
    """A frozen set in memory; threads may share it."""

    def __init__(self, held: HeldSet, engine: Engine) -> None:
        self._held, self._engine = held, engine
        self.id: str = held.manifest.id
        self.purpose: str = held.manifest.purpose.value
        self.items: Sequence[str] = held.ids

    def score(
        self,
        predictions: Predictions,
        *,
        items: Sequence[str] | None = None,
        metric: str | None = None,
        metrics: str | Sequence[str] | None = None,
        draws: int = 0,
        confidence: float = ScoreSettings.confidence,
        seed: int = ScoreSettings.seed,
        baseline: str | None = None,
        explain: bool = False,
        percent: bool = False,
        language: str | None = None,
    ) -> Scores:
        """Return scores of replies to items of the set; without `items`, to all of them in its order."""
        from refaug.scoring.held_sets.set_scoring import SetRequest, evaluate_set  # noqa: PLC0415  compiles

        specifications = specifications_of(metric, metrics)
        settings = ScoreSettings(
            draws=draws, confidence=confidence, seed=seed, baseline=baseline, explain=explain, percent=percent
        )
        held = self._engine.held_sets.get(self.id)  # once more: it may have been withdrawn
        request = SetRequest(replies=predictions_by_system(predictions, SYSTEM), items=items)
        evaluation = evaluate_set(held, request, specifications, settings, language=language)
        return Scores.of(evaluation, {}, specifications, ())

    def __repr__(self) -> str:
        return f"OpenSet({self.id!r}, {self.purpose}, {len(self.items):,} items)"


@extras_named()
def scorer(*, reference_set: str, home: AnyPath | None = None, **settings: Any) -> Scorer:
    """Return the client's scorer against a frozen set of this home, without a server; options as `Client.scorer`.

    It can neither be pickled nor used after a fork: each process makes its own.
    """
    return _client(home).scorer(reference_set=reference_set, **settings)


@extras_named()
def reward(*, reference_set: str, home: AnyPath | None = None, **settings: Any) -> Reward:
    """Return the client's reward against a frozen set of this home, without a server; options as `Client.reward`.

    It can neither be pickled nor used after a fork: each process makes its own.
    """
    return _client(home).reward(reference_set=reference_set, **settings)


def _client(home: AnyPath | None) -> Client:
    """Return a client whose requests are answered here, by a function in place of httpx's transport."""
    try:
        import httpx  # noqa: PLC0415
        from refaug_client import Client  # noqa: PLC0415
    except ModuleNotFoundError as error:
        raise MissingPart("scorers and rewards are the client's", remedy="pip install refaug-client") from error

    engine = engine_of(home)
    transport = httpx.MockTransport(lambda request: _answer(engine, request))
    return Client(_URL, key="", http=httpx.Client(transport=transport))


def _answer(engine: Engine, request: Any) -> Any:
    import httpx  # noqa: PLC0415
    import orjson  # noqa: PLC0415

    try:
        content, status = _result(engine, request.url.path, orjson.loads(request.read())), 200
    except RefaugError as error:
        status = error.status
        content = {"status": status, "code": error.code, "detail": error.message, "remedy": error.remedy}
    return httpx.Response(
        status,
        content=orjson.dumps(content, option=orjson.OPT_SERIALIZE_NUMPY),
        headers={"content-type": "application/json"},
    )


def _result(engine: Engine, path: str, body: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the answer of one of the two routes that scorers use."""
    from refaug.scoring.combine import combine  # noqa: PLC0415  numpy
    from refaug.scoring.held_sets.set_scoring import SetRequest, answer_request  # noqa: PLC0415  compiles

    if path == "/v1/scores/combine":
        return combine(body["batches"])
    version, sets, name, scores = path.strip("/").split("/")
    if (version, sets, scores) != ("v1", "reference-sets", "scores"):
        raise Usage(f"{path} is answered by a server only", remedy="refaug serve, and Client(url)")
    return answer_request(
        engine.held_sets.get(name),
        SetRequest(replies=body["replies"], items=body.get("items")),
        body.get("metrics") or (),
        ScoreSettings(draws=0, percent=bool(body.get("percent"))),
        returned=body.get("return", "scores"),
        language=body.get("language"),
        on_error=body.get("on_error", "fail"),
    )
