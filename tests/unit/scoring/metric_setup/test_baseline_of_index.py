"""The baseline of an index: the mean over unrelated pairs, measured once, the same for everyone, kept beside it."""

from __future__ import annotations

import random
import shutil
from concurrent.futures import ThreadPoolExecutor
from itertools import product
from pathlib import Path

import numpy as np
import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from indexes import add_to_log, build, home_of, pairs_of
from plain_search import RawPair
from refusals import refusing
from safeguards import mostly_slow
from told import Told

from refaug.core.errors import BadInput, Conflict, Usage
from refaug.core.files import read_json
from refaug.core.progress import Silent
from refaug.core.text.normalisation import normalise
from refaug.indexer.building.update import erased_keys, update_index
from refaug.indexer.index_folders import Places
from refaug.metrics.catalogue import METRICS
from refaug.metrics.signature import Signature
from refaug.metrics.specification import Specification
from refaug.metrics.specification import build as metric_of
from refaug.metrics.upsilon import Upsilon, open_without_b
from refaug.scoring.metric_setup import baseline as module
from refaug.scoring.metric_setup.baseline import Baseline, baseline_in, with_index_baseline

WORDS = ["tea", "milk", "bread", "road", "house"]
VECTORS = {word: [float(place == number) for place in range(5)] for number, word in enumerate(WORDS)}


def measured(places: Places, specification: str = "rouge-1", index: str = "chat", **how: int) -> Baseline:
    return baseline_in(Specification.parse(specification), places.indexes, index, **how)


def based(places: Places, specification: str = "upsilon-rouge-1", index: str = "chat") -> Upsilon:
    asked = Specification.parse(specification)
    found = with_index_baseline(open_without_b(metric_of(asked), asked), places.indexes, index)
    assert isinstance(found, Upsilon)
    return found


def kept(places: Places) -> list[Path]:
    return sorted((places.indexes.folder("chat") / "baselines").glob("[!.]*"))


def overlap(reply: str, reference: str) -> float:
    """ROUGE-1's F of texts in which no word comes twice."""
    left, right = set(reply.split()), set(reference.split())
    return 2 * len(left & right) / (len(left) + len(right))


def unrelated(pairs: list[RawPair]) -> list[float]:
    """What every reply gives beside every reference of another pair and another dialogue."""
    return [
        overlap(one.response, other.response)
        for one, other in product(pairs, pairs)
        if (one.log, one.dialogue) != (other.log, other.dialogue)
        and (normalise(one.utterance), normalise(one.response))
        != (normalise(other.utterance), normalise(other.response))
    ]


def require_mean(found: Baseline, values: list[float]) -> None:
    """Within six standard errors of the mean over all there are."""
    assert abs(found.b - np.mean(values)) <= 6 * np.std(values) / np.sqrt(found.pairs) + 1e-12


def a_log(pairs: int, dialogues: int, seed: int, log: str = "chat") -> list[RawPair]:
    """Pairs of which many are repeated, several in a dialogue."""
    rng = random.Random(seed)
    return [
        RawPair(
            log,
            f"d{rng.randrange(dialogues)}",
            str(number),
            f"{rng.choice(WORDS)} {rng.randrange(pairs)}",
            " ".join(rng.sample(WORDS, rng.randint(1, 3))),
        )
        for number in range(pairs)
    ]


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("made")
    build(home_of(folder, a_log(60, 12, 1), VECTORS))
    return folder


@pytest.fixture
def places(made: Path, tmp_path: Path) -> Places:
    shutil.copytree(made, tmp_path / "home")
    return Places.under(tmp_path / "home")


# ── what it is ───────────────────────────────────────────────────────────────────────────────────────────────────


@settings(max_examples=6, deadline=None)
@given(st.integers(2, 40), st.integers(2, 6), st.integers(0, 2**32))
def test_it_is_the_mean_over_pairs_of_different_pairs_and_dialogues(
    tmp_path_factory: pytest.TempPathFactory, count: int, dialogues: int, seed: int
) -> None:
    first, second = a_log(count, dialogues, seed), a_log(count // 2, dialogues, seed + 1, "other")
    values = unrelated([*first, *second])
    places = home_of(tmp_path_factory.mktemp("home"), [*first, *second], VECTORS)
    build(places)
    if values:
        require_mean(measured(places), values)
    else:
        with refusing(BadInput):
            measured(places)


def test_a_pair_comes_up_as_often_as_the_logs_have_it(tmp_path: Path) -> None:
    often = [RawPair("chat", f"often{number}", "1", f"milk {number}", "tea") for number in range(30)]
    pairs = [*often, *pairs_of(("road", "house bread"), ("house", "bread road"))]
    places = home_of(tmp_path, pairs, VECTORS)
    build(places)
    found = measured(places)
    require_mean(found, unrelated(pairs))
    assert found.b > 0.8
    assert (found.pairs, found.source_pairs, found.seed) == (10_000, 32, 1)


def test_repeated_pairs_and_pairs_of_one_dialogue_are_never_compared(tmp_path: Path) -> None:
    repeated = [RawPair("chat", f"r{number}", "1", "Tea?", "milk") for number in range(20)]
    in_one = [RawPair("chat", "same", str(number), f"road {number}", "bread") for number in range(20)]
    places = home_of(tmp_path, [*repeated, *in_one], VECTORS)
    build(places)
    assert measured(places).b == 0.0


def test_what_an_update_has_masked_does_not_come_up_and_what_it_added_does(places: Places) -> None:
    before = measured(places)
    pairs = a_log(60, 12, 1)
    added = [RawPair("chat", f"new{number}", "1", f"house {number}", "road") for number in range(40)]
    add_to_log(places, "chat", added)
    update_index(places, "chat", Silent())
    require_mean(measured(places), unrelated([*pairs, *added]))
    update_index(places, "chat", Silent(), erase=erased_keys(dialogues=[f"d{number}" for number in range(6)]))
    left = [one for one in [*pairs, *added] if one.dialogue not in {f"d{number}" for number in range(6)}]
    require_mean(measured(places), unrelated(left))
    first, *_ = places.indexes.versions("chat")
    assert measured(places, index=f"chat@{first}") == before
    assert len(kept(places)) == 3


def test_the_seed_and_the_number_of_pairs_are_those_asked_for(places: Places) -> None:
    few, other, default = measured(places, pairs=50, seed=3), measured(places, pairs=50, seed=4), measured(places)
    assert (few.pairs, few.seed, default.pairs, default.seed) == (50, 3, 10_000, 1)
    assert len({few.b, other.b, default.b}) == 3
    assert len(kept(places)) == 3


def test_an_index_of_which_most_is_one_dialogue_gives_fewer_pairs(tmp_path: Path) -> None:
    one = [RawPair("chat", "d", str(number), f"tea {number}", f"milk {number}") for number in range(3_000)]
    places = home_of(tmp_path, [*one, *pairs_of(("road", "house"))], VECTORS)
    build(places)
    found = measured(places)
    assert 0 < found.pairs < 10_000
    assert found.b == 0.0


def test_an_index_of_one_dialogue_has_none(tmp_path: Path) -> None:
    places = home_of(tmp_path, [RawPair("chat", "d", str(n), f"tea {n}", "milk") for n in range(9)], VECTORS)
    build(places)
    with refusing(BadInput):
        measured(places)
    assert kept(places) == []


def test_where_all_responses_are_alike_there_is_nothing_left_to_score(tmp_path: Path) -> None:
    places = home_of(tmp_path, pairs_of(*((f"tea {n}", "milk") for n in range(9))), VECTORS)
    build(places)
    with refusing(BadInput):
        based(places)
    assert kept(places) == []


def test_the_largest_one_is_that_of_the_catalogue() -> None:
    parameter = METRICS["upsilon-chrf"].parameter("b")
    assert parameter is not None
    assert (parameter.canonical(str(module._LARGEST)), parameter.canonical("0.9991")) == ("0.999", None)


def test_a_metric_without_a_weighted_form_is_refused(places: Places) -> None:
    with refusing(Usage):
        measured(places, "cider")


# ── metrics that take it ─────────────────────────────────────────────────────────────────────────────────────────


def test_weighted_form_without_b_takes_it_from_the_index(places: Places) -> None:
    found, metric = measured(places, "rouge-1"), based(places, "upsilon-rouge-1:agg=best")
    assert metric.settings["b"] == found.parameter.removeprefix("b=") == str(round(found.b, 7))
    assert not metric.b_is_open
    signature = Signature.of(metric)
    assert signature == Signature.of(metric_of(Specification.parse(f"upsilon-rouge-1:agg=best,{found.parameter}")))
    again = metric_of(Signature.parse(signature.full).specification())
    assert again.settings == metric.settings


def test_a_b_that_is_given_is_left_and_so_is_a_metric_that_has_none(places: Places) -> None:
    for specification in ("upsilon-rouge-1:b=0.25", "upsilon-rouge-1:b=0", "upsilon-bleu", "rouge-1"):
        asked = Specification.parse(specification)
        metric = open_without_b(metric_of(asked), asked)
        assert with_index_baseline(metric, places.indexes, "no such index") is metric
    assert kept(places) == []


def test_it_does_not_depend_on_what_only_the_weighted_form_has(places: Places) -> None:
    wanted = measured(places, "rouge-1:stem=yes").b
    same = (
        "upsilon-rouge-1:stem=yes,agg=best,lambda=0",
        "upsilon-rouge-1:stem=yes,b=0.3",
        "rouge-1:stem=yes,refs=gold",
    )
    assert [measured(places, one).b for one in same] == [wanted] * 3
    assert len(kept(places)) == 1
    assert measured(places, "rouge-1:stem=yes,refs=gold").specification == (
        f"upsilon-rouge-1:stem=yes,b={round(wanted, 7)}"
    )
    measured(places, "rouge-1:measure=recall")
    assert len(kept(places)) == 2


# ── keeping ──────────────────────────────────────────────────────────────────────────────────────────────────────


def test_it_is_measured_once_and_then_read(places: Places) -> None:
    measured(places)
    (file,) = kept(places)
    written = read_json(file)  # without its checksum, which would not fit
    file.write_bytes(orjson.dumps({**written, "b": 0.125}))
    assert measured(places).b == 0.125
    assert based(places).settings["b"] == "0.125"


def test_a_number_that_was_altered_is_measured_again(places: Places) -> None:
    expected = measured(places)
    (file,) = kept(places)
    written = file.read_bytes()
    file.write_bytes(orjson.dumps({**orjson.loads(written), "b": 0.125}))
    assert measured(places) == expected
    assert file.read_bytes() == written


@pytest.mark.parametrize(
    "damage",
    mostly_slow(
        [
            b"",
            b"{",
            b"[]",
            {"b": 7.0},
            {"b": "0.1"},
            {"b": None},
            {"b": True},
            {"drawn": 0},
            {"drawn": 20_000},
            {"drawn": 1.5},
            {"index": "0" * 64},
            {"metric": "chrf"},
            {"seed": 2},
            {"format_version": 2},
            {"further": 1},
        ],
        quick=[1, 3, 7, 10, 14],
    ),
)
def test_what_is_no_answer_to_the_question_is_measured_again(places: Places, damage: bytes | dict[str, object]) -> None:
    wanted = measured(places)
    (file,) = kept(places)
    before = file.read_bytes()
    file.write_bytes(damage if isinstance(damage, bytes) else orjson.dumps(read_json(file) | damage))
    assert measured(places) == wanted
    assert file.read_bytes() == before


def test_the_same_content_under_another_name_has_the_same_to_the_last_byte(places: Places) -> None:
    build(places, "twin")
    assert measured(places).b == measured(places, index="twin").b
    (here,) = kept(places)
    assert (places.indexes.folder("twin") / "baselines" / here.name).read_bytes() == here.read_bytes()


def test_several_at_once_get_the_same_and_leave_one_whole_file(places: Places) -> None:
    alone = measured(places)
    (file,) = kept(places)
    written = file.read_bytes()
    file.unlink()
    (file.parent / ".left.json.1-2.aside").write_bytes(b"half of")
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(lambda _: measured(places), range(4)))
    assert found == [alone] * 4
    assert file.read_bytes() == written
    assert sorted(path.name for path in file.parent.iterdir()) == [".lock", file.name]


def test_where_nothing_can_be_written_it_is_measured_each_time_and_said(places: Places) -> None:
    wanted = measured(places)
    folder = kept(places)[0].parent
    kept(places)[0].unlink()
    (folder / ".lock").unlink()
    folder.rmdir()
    folder.write_text("in the way")
    told = Told()
    found = baseline_in(Specification.parse("rouge-1"), places.indexes, "chat", progress=told)
    assert found == wanted
    assert [message.partition(",")[0] for message in told.warnings] == ["the baseline of the index could not be kept"]


def test_it_is_no_version_stays_when_versions_go_and_goes_with_the_index(places: Places) -> None:
    measured(places)
    (file,) = kept(places)
    second = build(places)
    assert len(places.indexes.versions("chat")) == 2
    assert second not in places.indexes.gc("chat", 0)
    assert places.indexes.versions("chat") == [second]
    assert places.indexes.names() == ["chat"]
    assert file.exists()
    with places.indexes.open("chat"), refusing(Conflict):
        places.indexes.delete("chat")
    places.indexes.delete("chat")
    assert not file.parent.parent.exists()
