"""Message trees: any forest, however shuffled and broken, gives the pairs that plain Python gives."""

from __future__ import annotations

import random
import tempfile
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from integration.reference import join, message

from refaug.core.query_engine import QueryEngine
from refaug.logs.ingest import reply_trees as trees_module
from refaug.logs.ingest.reply_trees import Trees
from refaug.logs.ingest.source_reading import STAGED_MESSAGE_SCHEMA
from refaug.logs.pairs import text_key


def staged(messages, context=frozenset()):
    """Messages as the reading leaves them."""
    rows = [
        {
            "id": one.id,
            "parent": one.parent,
            "root": one.root,
            "text": one.kept,
            "key": text_key(one.kept or ""),
            "line": number + 1,
            "seq": number,
            "source": 0,
            "context": number in context,
            "chain": False,
        }
        for number, one in enumerate(messages)
    ]
    return pa.Table.from_pylist(rows, schema=STAGED_MESSAGE_SCHEMA)


def joined(folder, table, *, files=1, memory=512 << 20):
    """Pairs, counts and what was left out, as `Trees` gives them."""
    folder.mkdir(parents=True, exist_ok=True)
    size = -(-table.num_rows // files) or 1
    paths = [folder / f"{number}.parquet" for number in range(files)]
    for number, path in enumerate(paths):
        pq.write_table(table.slice(number * size, size), path)
    with QueryEngine(folder / "engine", memory=memory) as engine:
        trees = Trees(engine, paths, folder)
        counts = trees.link()
        out = list(trees.unplaced())
        return [batch for batch in trees.pairs() if batch.num_rows], counts, out


def as_tuples(batches):
    names = ("dialogue", "position", "utterance", "response")
    return [tuple(row[name] for name in names) for batch in batches for row in batch.to_pylist()]


def expected(pairs):
    return [(p["dialogue"], p["position"], p["utterance"], p["response"]) for p in pairs]


@st.composite
def forests(draw):
    """Messages that answer each other in every way that ids allow: trees, chains, orphans, loops, ids used twice."""
    count = draw(st.integers(1, 40))
    names = [f"m{number}" for number in range(draw(st.integers(1, count)))]
    parents = st.none() | st.sampled_from([*names, "nobody", "gone"])
    roots = st.none() | st.sampled_from(["thread-1", "thread-2"])
    return [
        message(draw(st.sampled_from(names)), draw(parents), kept=draw(st.integers(0, 4)) > 0, root=draw(roots))
        for _ in range(count)
    ]


@pytest.fixture(scope="module")
def scratch(tmp_path_factory):
    return tmp_path_factory.mktemp("trees")


@settings(max_examples=12, deadline=None)
@given(forest=forests(), files=st.integers(1, 3), chunk=st.sampled_from([1, 3, 1_000]))
def test_any_forest_gives_the_pairs_of_the_reference_in_order(scratch, forest, files, chunk):
    pairs, counts, out = join(forest)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(trees_module, "MESSAGES_A_CHUNK", chunk)
        batches, found, left = joined(scratch / "any", staged(forest), files=files)
    assert as_tuples(batches) == expected(pairs)
    assert {name: getattr(found, name) for name in counts} == counts
    assert [(one.id, one.reason) for one in left] == out


@pytest.mark.slow
def test_a_chain_of_twenty_thousand_messages_in_random_order(scratch):
    chain = [message(f"m{n}", f"m{n - 1}" if n else None) for n in range(20_000)]
    random.Random(1).shuffle(chain)
    batches, counts, _ = joined(scratch / "chain", staged(chain))
    order = {one.id: number for number, one in enumerate(chain)}
    assert (counts.roots, counts.replies, counts.in_cycles) == (1, 19_999, 0)
    found = as_tuples(batches)
    assert [position for _, position, _, _ in found] == sorted((f"m{n}" for n in range(1, 20_000)), key=order.get)
    assert {(utterance, response) for _, _, utterance, response in found} == {
        (f"message m{n - 1} speaking", f"message m{n} speaking") for n in range(1, 20_000)
    }


def test_trees_hanging_from_a_circle_are_left_out_with_it(scratch):
    ring = [message(f"r{n}", f"r{(n + 1) % 5}") for n in range(5)]
    hanging = [message("h0", "r0"), *(message(f"h{n}", f"h{n - 1}") for n in range(1, 30))]
    whole = [message("a"), message("b", "a"), message("self", "self")]
    forest = [*hanging[::-1], *ring, *whole]
    batches, counts, left = joined(scratch / "ring", staged(forest))
    assert as_tuples(batches) == [("a", "b", "message a speaking", "message b speaking")]
    assert (counts.in_cycles, counts.roots) == (36, 1)
    assert [one.id for one in left] == [one.id for one in [*hanging[::-1], *ring, whole[2]]]
    assert {one.reason for one in left} == {"cycle"}


@pytest.mark.slow
def test_a_giant_tree_and_many_small_ones_over_many_chunks(scratch, monkeypatch):
    monkeypatch.setattr(trees_module, "MESSAGES_A_CHUNK", 500)
    rng = random.Random(2)
    giant = [message(f"g{n}", f"g{rng.randrange(n)}" if n else None) for n in range(5_000)]
    small = [message(f"s{n}", f"s{n - 1}" if n % 2 else None) for n in range(50_000)]
    forest = [*giant, *small]
    rng.shuffle(forest)
    batches, _, _ = joined(scratch / "giant", staged(forest))
    assert as_tuples(batches) == expected(join(forest)[0])


def test_context_messages_are_answered_and_make_no_pair(scratch):
    forest = [message("a"), message("b", "a"), message("c", "b"), message("b", "zzz")]
    batches, counts, left = joined(scratch / "context", staged(forest, context={0, 1, 3}))
    assert as_tuples(batches) == [("a", "c", "message b speaking", "message c speaking")]
    assert (counts.duplicate_ids, left) == (1, [])


def test_the_root_s_hint_names_the_dialogue_of_an_orphan_s_tree(scratch):
    forest = [message("b", "gone", root="thread"), message("c", "b", root="other")]
    batches, counts, _ = joined(scratch / "hint", staged(forest))
    assert as_tuples(batches) == [("thread", "c", "message b speaking", "message c speaking")]
    assert (counts.orphans, counts.roots) == (1, 1)


@pytest.mark.slow
def test_three_hundred_thousand_messages_in_little_memory(scratch):
    """The reference would be slow here; that each message answers its parent can be read off its text."""
    rng, count = random.Random(3), 300_000
    order = list(range(count))
    rng.shuffle(order)
    parents = [None if n % 10 == 0 else n - 1 - rng.randrange(n % 10) for n in order]
    text = [f"message {n} speaking at some length so that texts outweigh numbers, as they do in logs" for n in order]
    columns = {
        "id": [f"m{n}" for n in order],
        "parent": [None if p is None else f"m{p}" for p in parents],
        "root": pa.nulls(count, pa.string()),
        "text": text,
        "speaker": pa.nulls(count, pa.string()),
        "time": pa.nulls(count, pa.timestamp("us", tz="UTC")),
        "tags": pa.nulls(count, pa.list_(pa.string())),
        "key": pa.array(order, pa.uint64()),
        "line": pa.array(range(count), pa.int64()),
        "chain": pa.array([False] * count),
        "seq": pa.array(range(count), pa.int64()),
        "source": pa.array([0] * count, pa.int32()),
        "context": pa.array([False] * count),
    }
    names = STAGED_MESSAGE_SCHEMA.names
    table = pa.table({name: columns[name] for name in names}).cast(STAGED_MESSAGE_SCHEMA)
    batches, counts, _ = joined(scratch / "many", table, files=3, memory=256 << 20)
    found = pa.Table.from_batches(batches)
    assert (counts.roots, counts.replies, found.num_rows) == (count // 10, count - count // 10, count - count // 10)
    answered = dict(zip(order, parents, strict=True))
    for utterance, response in zip(found["utterance_key"].to_pylist(), found["response_key"].to_pylist(), strict=True):
        assert answered[response] == utterance


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 2), st.booleans()), max_size=40))
@settings(max_examples=12, deadline=None)
def test_turns_answer_the_turn_before_them_in_their_conversation(turns):
    """Turn ids need be unique within a conversation only; a second turn of one id is left out, as a message is."""
    rows, last, expected, seen = [], {}, [], set()
    for number, (talk, own, kept) in enumerate(turns):
        text = f"text {number}" if kept else None
        identity = f"t{own}" if own else f"line:{number}"
        rows.append(
            {
                **dict.fromkeys(("parent", "speaker", "time", "tags")),
                "id": identity,
                "root": f"talk{talk}",
                "text": text,
                "key": number,
                "line": number + 1,
                "chain": True,
                "seq": number,
                "source": 0,
                "context": False,
            }
        )
        if (talk, identity) in seen:
            continue
        seen.add((talk, identity))
        if talk in last and text is not None and last[talk] is not None:
            expected.append((f"talk{talk}", identity, last[talk], text))
        last[talk] = text
    if not rows:
        return
    with tempfile.TemporaryDirectory() as folder:
        batches, counts, _ = joined(
            Path(folder) / "x", pa.Table.from_pylist(rows, schema=STAGED_MESSAGE_SCHEMA), files=2
        )
    names = ("dialogue", "position", "utterance", "response")
    found = [tuple(row[name] for name in names) for batch in batches for row in batch.to_pylist()]
    first_of = {f"talk{talk}": number for number, (talk, _, _) in reversed(list(enumerate(turns)))}
    assert found == sorted(expected, key=lambda pair: first_of[pair[0]])
    assert (counts.roots, counts.in_cycles, counts.orphans) == (len(first_of), 0, 0)
