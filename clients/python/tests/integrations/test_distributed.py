"""Scores over two real processes of torch.distributed: gathered, asked for by rank 0 alone, the same on both."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Callable

import pytest
import torch.distributed as dist
import torch.multiprocessing as mp
from accelerate import Accelerator
from beside import Served
from refusals import refusing
from tiny import causal, tokenizer_of
from torch.utils.data import DataLoader, DistributedSampler

from refaug_client import CannotConnect, Client, Usage
from refaug_client._core.errors import RefaugError
from refaug_client.integrations.distributed import ScoreMetric, from_rank_zero, gathered, rank_and_ranks
from refaug_client.integrations.transformers import ScoreReplies

NOWHERE = "http://127.0.0.1:9"  # nothing listens on this port: whoever asks there fails
Rank = Callable[[int, dict[str, Any]], Any]


def in_two(folder: Path, work: Rank, given: dict[str, Any]) -> list[Any]:
    """What the work returns on both ranks; an exception becomes its type and text."""
    mp.spawn(_rank, args=(str(folder), work, given), nprocs=2, join=True)
    return [json.loads((folder / f"{rank}.json").read_text("utf-8")) for rank in range(2)]


def _rank(rank: int, folder: str, work: Rank, given: dict[str, Any]) -> None:
    dist.init_process_group("gloo", init_method=f"file://{folder}/meet", rank=rank, world_size=2)
    try:
        found = work(rank, given)
    except Exception as error:  # noqa: BLE001  it is what the test looks at
        found = [type(error).__name__, str(error)]
    (Path(folder) / f"{rank}.json").write_text(json.dumps(found), "utf-8")
    dist.barrier()
    dist.destroy_process_group()


def _share(rank: int, given: dict[str, Any]) -> Any:
    """Eleven items over two ranks: the sampler repeats one."""
    items, replies = given["items"], given["replies"]
    sampler = DistributedSampler(items, num_replicas=2, rank=rank, shuffle=True, seed=3)
    client = Client(given["url"] if rank == 0 else NOWHERE, retry=0)
    with client, client.scorer(reference_set=given["set"], metric="upsilon-bleu") as scorer:
        metric = ScoreMetric(scorer)
        for places in DataLoader(range(len(items)), batch_size=4, sampler=sampler):
            some = [int(place) for place in places]
            positions = some if given["positions"] else None
            metric.update([replies[at] for at in some], [items[at] for at in some], positions)
        first = metric.compute()
        metric.reset()
        metric.update([replies[0]] if rank else [], [items[0]] if rank else [])
        return [first.to_dict(), metric.compute().to_dict()]


@pytest.mark.parametrize("positions", [False, True])
def test_two_ranks_get_the_score_that_one_would(
    positions: bool, served: Served, client: Client, tmp_path: Path
) -> None:
    items = list(served.prompts)[:11]
    replies = [f"we like red boats {number}" for number in range(11)]
    given = {
        "url": served.url,
        "set": served.sets["validation"],
        "items": items,
        "replies": replies,
        "positions": positions,
    }
    first, second = in_two(tmp_path, _share, given)
    assert first == second
    whole, one = first
    with client.scorer(reference_set=served.sets["validation"], metric="upsilon-bleu") as scorer:
        metric = ScoreMetric(scorer)
        metric.update(replies, items, range(11) if positions else None)
        alone = metric.compute()
        assert whole == {**alone.to_dict(), "repeated": 1}
        assert alone.corpus is not None
        assert alone.corpus > 0
        assert (alone.scored, alone.unscored, alone.unavailable) == (11, 0, 0)
        direct = client.sets.score(
            served.sets["validation"], replies={"m": replies}, items=items, metrics=["upsilon-bleu"]
        )
        assert alone.corpus == pytest.approx(direct.corpus, rel=1e-12)
        assert alone.signature == direct.signature
        assert (one["scored"], one["repeated"]) == (1, 0)


def _calls(rank: int, given: dict[str, Any]) -> Any:
    asked: list[Any] = []

    def generate(model: Any, processing_class: Any, prompts: list[Any]) -> list[str]:
        asked.append(prompts)
        return ["tea"] * len(prompts)

    model = causal(tokenizer_of(["tea"]))
    trainer: Any = SimpleNamespace(model=model, processing_class=None, accelerator=Accelerator(cpu=True))
    with Client(given["url"]) as client, client.scorer(reference_set=given["set"]) as scorer:
        found = ScoreReplies(scorer, given["prompts"], batch=1, generate=generate)._score(trainer)
    return [asked, found.scored]


@pytest.mark.parametrize(("count", "places"), [(1, [[0], [0]]), (3, [[0, 2], [1, 1]])])
def test_a_model_is_called_equally_often_on_both_ranks(
    count: int, places: list[list[int]], served: Served, tmp_path: Path
) -> None:
    prompts = dict(list(served.prompts.items())[:count])
    given = {"url": served.url, "set": served.sets["validation"], "prompts": prompts}
    texts = list(prompts.values())
    assert in_two(tmp_path, _calls, given) == [[[[texts[place]] for place in listed], count] for listed in places]


def _away(rank: int, given: dict[str, Any]) -> Any:
    with Client(NOWHERE, retry=0) as client, client.scorer(reference_set="s1") as scorer:
        metric = ScoreMetric(scorer)
        metric.update(["tea"], ["a"])
        return metric.compute().to_dict()


def test_an_error_of_rank_zero_is_raised_on_both_and_nobody_waits(tmp_path: Path) -> None:
    first, second = in_two(tmp_path, _away, {})
    assert first == second
    assert first[0] == CannotConnect.__name__
    assert NOWHERE in first[1]


class Local(Exception):
    def __init__(self, one: int, two: int) -> None:
        super().__init__(f"{one} and {two}")


def _stuck(rank: int, given: dict[str, Any]) -> Any:
    def work() -> Any:
        assert rank == 0
        raise Local(1, 2)

    return from_rank_zero(work)


def test_an_error_that_cannot_travel_is_told_to_the_other_rank(tmp_path: Path) -> None:
    first, second = in_two(tmp_path, _stuck, {})
    assert first == ["Local", "1 and 2"]
    assert second == [RefaugError.__name__, "rank 0: Local: 1 and 2"]


def _different(rank: int, given: dict[str, Any]) -> Any:
    with Client(given["url"]) as client, client.scorer(reference_set=given["set"]) as scorer:
        found: list[Any] = []
        for repeated in ("same", "first", "keep"):
            metric = ScoreMetric(scorer, repeated=repeated)
            metric.update([f"we like red boats {rank}"], ["d0"])
            try:
                found.append([metric.compute().scored, metric.compute().repeated])
            except Usage as error:
                found.append(str(error))
        return found


def test_different_replies_to_an_item_count_as_was_said(served: Served, tmp_path: Path) -> None:
    first, second = in_two(tmp_path, _different, {"url": served.url, "set": served.sets["validation"]})
    assert first == second
    assert "'d0' has two different replies" in first[0]
    assert first[1:] == [[1, 1], [2, 0]]


def _group(rank: int, given: dict[str, Any]) -> Any:
    alone = dist.new_group([1])
    if rank == 0:
        return [list(rank_and_ranks()), None, None]
    return [list(rank_and_ranks(alone)), gathered("mine", alone), from_rank_zero(lambda: "done", alone)]


def test_a_group_of_its_own_has_a_rank_zero_of_its_own(tmp_path: Path) -> None:
    first, second = in_two(tmp_path, _group, {})
    assert first[0] == [0, 2]
    assert second == [[0, 1], ["mine"], "done"]


# ── one rank ──────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_without_a_process_group_it_is_one_rank() -> None:
    assert rank_and_ranks() == (0, 1)
    assert gathered("mine") == ["mine"]
    assert from_rank_zero(lambda: 3) == 3


def test_nothing_to_score_asks_nothing() -> None:
    with Client(NOWHERE, retry=0) as client, client.scorer(reference_set="s1") as scorer:
        found = ScoreMetric(scorer).compute()
        assert (found.corpus, found.mean, found.scored, found.signature) == (None, None, 0, "")


def test_what_cannot_be_counted_is_refused() -> None:
    with Client(NOWHERE) as client, client.scorer(reference_set="s1") as scorer:
        with refusing(Usage, "repeated='twice'"):
            ScoreMetric(scorer, repeated="twice")
        metric = ScoreMetric(scorer)
        for replies, items, positions in (("tea", ["a"], None), (["tea"], [1], None), (["tea"], ["a"], [1, 2])):
            with pytest.raises(Usage):
                metric.update(replies, items, positions)  # type: ignore[arg-type]
        assert metric.compute().scored == 0
        metric.update(["tea"], ["a"], [0])
        metric.update(["tea"], ["b"])
        with refusing(Usage, "positions"):
            metric.compute()
        metric.reset()
        metric.update(["tea"], ["a"], [0])
        metric.update(["tea"], ["b"], [0])
        with refusing(Usage, "position 0", "'a', 'b'"):
            metric.compute()
