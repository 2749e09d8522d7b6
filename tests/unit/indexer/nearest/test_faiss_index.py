"""Nearest neighbours: FAISS held to numpy, the same in every batch, and nothing it cannot do accepted."""

from __future__ import annotations

import resource
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise

import faiss
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from refusals import refusing
from safeguards import mostly_slow
from told import Told

from refaug.core.errors import Corrupt, StorageFull, Usage
from refaug.indexer.building.recall import ExactSearch
from refaug.indexer.nearest.faiss_calls import nearest, openmp_threads, search_threads, set_threads
from refaug.indexer.nearest.index_builder import AnnBuilder, AnnIndex
from refaug.indexer.nearest.index_kinds import AnnKind

CODE_ERROR = {"Flat": 1e-6, "SQfp16": 1e-3, "SQ8": 0.01}
PROJECTED = "PCAR16,IVF32,PQ8x4fs"
KINDS = ["Flat", "SQ8", "IVF32,Flat", "IVF32,SQfp16", "IVF32,SQ8", "IVF32,RaBitQfs", PROJECTED]
GRAPHS = ["HNSW16", "HNSW16,SQ8", "IVF32_HNSW16,SQ8"]


def unit_rows(count, dimensions, seed=0):
    """Clustered, as utterances are."""
    rng = np.random.default_rng(seed)
    centres = np.random.default_rng(99).standard_normal((40, dimensions))
    rows = centres[rng.integers(0, 40, count)] + 0.7 * rng.standard_normal((count, dimensions))
    return (rows / np.linalg.norm(rows, axis=1, keepdims=True)).astype(np.float32)


def built(factory, vectors, *, threads=1, block=5_000, **settings):
    builder = AnnBuilder.train(factory, vectors.shape[1], vectors, threads=threads, **settings)
    for first in range(0, len(vectors), block):
        builder.add(vectors[first : first + block])
    return builder


def brute_force(queries, vectors, depth):
    """By definition, in double precision: ids and similarities, the most similar first."""
    products = queries.astype(np.float64) @ vectors.astype(np.float64).T
    ids = np.argsort(-products, axis=1, kind="stable")[:, :depth]
    return ids, np.take_along_axis(products, ids, axis=1)


@pytest.fixture(autouse=True)
def threads_as_before():
    yield
    set_threads(1)


@pytest.fixture(scope="module")
def wide():
    """So wide that FAISS would turn to BLAS at 320 queries, and so long that with two threads it would for one."""
    return unit_rows(10_100, 400), unit_rows(335, 400, seed=1)


# ── the same answer for everybody ────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("factory", mostly_slow(KINDS + GRAPHS, quick=[0, 2, 8]))
def test_query_has_the_same_answer_in_every_batch_and_number_of_threads(tmp_path, wide, factory):
    vectors, queries = wide
    vectors = vectors if factory == "Flat" else vectors[:2_000]
    built(factory, vectors, threads=2).write(tmp_path / "v")
    index = AnnIndex.open(tmp_path / "v")
    ids, similarities = index.search(queries, 20, 8)
    for threads in (1, 2):
        set_threads(threads)
        for batch in (1, 2, 19, 20, 21, 333):
            few = queries if batch == 333 else queries[:42]
            parts = [index.search(few[first : first + batch], 20, 8) for first in range(0, len(few), batch)]
            assert np.array_equal(np.concatenate([part[0] for part in parts]), ids[: len(few)])
            found = np.concatenate([part[1] for part in parts])
            assert found.tobytes() == similarities[: len(few)].tobytes(), (threads, batch)


def test_python_threads_may_search_at_once_with_different_efforts():
    vectors, queries = unit_rows(4_000, 32), unit_rows(64, 32, seed=1)
    index = built("IVF32,SQ8", vectors).index()
    efforts = [1, 2, 5, 32] * 8
    alone = [index.search(queries, 10, effort)[0].tolist() for effort in efforts]
    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(lambda effort: index.search(queries, 10, effort)[0].tolist(), efforts)) == alone


def test_the_number_of_threads_holds_in_every_python_thread():
    seen = []

    def look():
        with openmp_threads(search_threads.count):
            seen.append(faiss.omp_get_max_threads())

    set_threads(3)
    look()
    with ThreadPoolExecutor(1) as pool:
        pool.submit(look).result()
    assert seen == [3, 3]
    with refusing(Usage):
        set_threads(0)


# ── what is found ────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("dimensions", [32, 45])
@pytest.mark.parametrize("factory", [factory for factory in KINDS if not factory.endswith("fs")])
def test_searching_all_lists_equals_brute_force_up_to_the_code_error(factory, dimensions):
    vectors, queries = unit_rows(3_000, dimensions), unit_rows(40, dimensions, seed=1)
    exact = queries.astype(np.float64) @ vectors.astype(np.float64).T
    error = CODE_ERROR[factory.split(",")[-1]]
    index = built(factory, vectors).index()
    ids, similarities = index.search(queries, 12, 32)
    wanted_ids, wanted = brute_force(queries, vectors, 12)
    true = np.take_along_axis(exact, ids, axis=1)
    assert np.abs(similarities - true).max() < error
    assert (true >= wanted - 2 * error).all()
    assert (np.diff(similarities, axis=1) <= 0).all()
    assert all(len(set(row)) == 12 for row in ids.tolist())
    if error == 1e-6:
        assert np.array_equal(ids, wanted_ids)


def test_of_bits_many_candidates_hold_what_brute_force_finds():
    vectors, queries = unit_rows(3_000, 204), unit_rows(40, 204, seed=1)
    ids, similarities = built("IVF32,RaBitQfs", vectors).index().search(queries, 500, 32)
    wanted_ids, _ = brute_force(queries, vectors, 15)
    true = np.einsum("qd,qcd->qc", queries, vectors[ids])
    assert np.abs(similarities - true).mean() < 1 / np.sqrt(204)  # the deviation of one bit a component
    assert (np.diff(similarities, axis=1) <= 0).all()
    found = [len(set(row) & set(wanted)) for row, wanted in zip(ids.tolist(), wanted_ids.tolist(), strict=True)]
    assert sum(found) >= 0.97 * 15 * 40


def test_behind_a_projection_many_candidates_hold_what_brute_force_finds():
    vectors, queries = unit_rows(3_000, 204), unit_rows(40, 204, seed=1)
    index = built("PCAR136,IVF32,PQ68x4fs", vectors).index()
    ids, similarities = index.search(queries, 500, 32)
    wanted_ids, _ = brute_force(queries, vectors, 15)
    true = np.einsum("qd,qcd->qc", queries, vectors[ids])
    roughly = [np.corrcoef(one, other)[0, 1] for one, other in zip(similarities, true, strict=True)]
    assert min(roughly) > 0.9
    assert (np.diff(similarities, axis=1) <= 0).all()
    found = [len(set(row) & set(wanted)) for row, wanted in zip(ids.tolist(), wanted_ids.tolist(), strict=True)]
    assert sum(found) >= 0.97 * 15 * 40


def test_faiss_itself_finds_nearly_the_same_behind_a_projection(tmp_path):
    vectors, queries = unit_rows(3_000, 40), unit_rows(50, 40, seed=1)
    built("PCAR24,IVF32,PQ12x4fs", vectors).write(tmp_path / "v")
    theirs = faiss.read_index(str(tmp_path / "v"))
    faiss.extract_index_ivf(theirs).nprobe = 8
    ids, _ = AnnIndex.open(tmp_path / "v").search(queries, 100, 8)
    _, wanted = theirs.search(queries, 100)
    shared = [len(set(row) & set(other)) for row, other in zip(ids.tolist(), wanted.tolist(), strict=True)]
    assert np.mean(shared) > 99


def test_a_graph_finds_nearly_all_of_what_brute_force_finds():
    vectors, queries = unit_rows(2_000, 32), unit_rows(50, 32, seed=1)
    ids, similarities = built("HNSW16", vectors).index().search(queries, 10, 200)
    wanted_ids, wanted = brute_force(queries, vectors, 10)
    assert np.mean(ids == wanted_ids) > 0.98
    assert np.abs(similarities - wanted).mean() < 1e-3


def test_more_lists_never_find_less():
    vectors, queries = unit_rows(3_000, 24), unit_rows(60, 24, seed=1)
    index = built("IVF32,Flat", vectors).index()
    before = np.full((60, 15), -np.inf, np.float32)
    for effort in index.efforts():
        now = index.search(queries, 15, effort)[1]
        assert (now >= before).all()
        before = now
    assert np.allclose(before, brute_force(queries, vectors, 15)[1], atol=1e-6)


@pytest.mark.parametrize("factory", KINDS)
def test_where_there_are_no_more_ids_are_minus_one(factory):
    vectors = unit_rows(1_300, 16)
    builder = AnnBuilder.train(factory, 16, vectors)
    builder.add(vectors[:5])
    ids, similarities = builder.index().search(vectors[:3], 8, 32)
    assert [sorted(row) for row in ids.tolist()] == [[-1, -1, -1, 0, 1, 2, 3, 4]] * 3
    assert ids[:, 5:].tolist() == [[-1] * 3] * 3
    assert np.isneginf(similarities[:, 5:]).all()
    assert np.isfinite(similarities[:, :5]).all()


def test_lists_that_are_not_searched_leave_places_empty():
    vectors = unit_rows(1_300, 16)
    index = built("IVF32,Flat", vectors).index()
    ids, similarities = index.search(vectors[:20], 1_300, 1)
    assert ((ids < 0) == np.isneginf(similarities)).all()
    assert (ids >= 0).any(axis=1).all()
    assert (ids[:, -1] < 0).all()
    assert ids[:, 0].tolist() == list(range(20))


@pytest.mark.parametrize("factory", ["Flat", "IVF32,SQ8", "HNSW16"])
def test_index_may_be_empty_or_hold_one_vector_and_queries_may_be_none(tmp_path, factory):
    vectors = unit_rows(1_300, 20)
    for count in (0, 1):
        builder = AnnBuilder.train(factory, 20, vectors)
        builder.add(vectors[:0])
        builder.add(vectors[:count])
        builder.write(tmp_path / "v")
        index = AnnIndex.open(tmp_path / "v")
        assert (index.size, index.dimensions) == (count, 24)
        assert index.search(vectors[:2], 3, 32)[0].tolist() == [[0, -1, -1][1 - count :] + [-1] * (1 - count)] * 2
        for ids in index.search(vectors[:0], 3, 32):
            assert ids.shape == (0, 3)


def test_of_equal_vectors_the_same_ones_are_found_in_every_batch():
    vectors = np.repeat(unit_rows(300, 16), 7, axis=0)
    for factory in ("Flat", "IVF32,SQ8"):
        index = built(factory, vectors).index()
        ids, similarities = index.search(vectors[::7], 4, 32)
        assert (ids // 7 == np.arange(300)[:, None]).all()
        assert (similarities == similarities[:, :1]).all()
        assert all(len(set(row)) == 4 for row in ids.tolist())
        for row in (0, 8, 299):
            assert index.search(vectors[7 * row : 7 * row + 1], 4, 32)[0].tolist() == [ids[row].tolist()]


def test_what_an_index_says_of_itself():
    vectors = unit_rows(2_000, 16)
    flat, lists, graph, codes = (built(name, vectors).index() for name in ("Flat", "IVF48,SQfp16", "HNSW16", "SQ8"))
    assert [(index.kind, index.lists, index.is_exact) for index in (flat, lists, graph, codes)] == [
        ("flat", 0, True),
        ("ivf", 48, False),
        ("hnsw", 0, False),
        ("codes", 0, False),
    ]
    assert lists.efforts() == (1, 2, 4, 8, 16, 32, 48)
    assert built("IVF32,Flat", vectors).index().efforts() == (1, 2, 4, 8, 16, 32)
    assert built("IVF1,Flat", vectors).index().efforts() == (1,)
    assert graph.efforts()[:3] == (16, 32, 64)
    assert flat.efforts() == codes.efforts() == ()


# ── measuring ────────────────────────────────────────────────────────────────────────────────────────────────────


@settings(deadline=None, max_examples=30)
@given(sizes=st.lists(st.integers(0, 60), max_size=6), k=st.integers(1, 30), queries=st.integers(0, 5))
def test_the_exact_best_of_blocks_are_numpys_of_the_whole(sizes, k, queries):
    vectors, asked = unit_rows(sum(sizes), 9), unit_rows(queries, 9, seed=1)
    ends = np.cumsum([0, *sizes]).tolist()
    search = ExactSearch(asked, k)
    for first, last in pairwise(ends):
        search.add_block(np.arange(first, last), vectors[first:last])
    expected, _ = brute_force(asked, vectors, k)
    width = expected.shape[1]
    assert search.rows.shape == (queries, k)
    assert np.array_equal(search.rows[:, :width], expected)
    assert (search.rows[:, width:] == -1).all()


def test_of_equals_the_first_rows_come_first():
    vectors = np.tile(np.eye(4, dtype=np.float32)[:2], (3, 1))  # rows 0, 2, 4 are equal, and 1, 3, 5
    assert nearest(vectors[:1], vectors, 3)[0].tolist() == [[0, 2, 4]]
    search = ExactSearch(vectors[1:2], 3)
    for rows in (np.arange(3), np.arange(3, 6)):
        search.add_block(rows, vectors[rows])
    assert search.rows.tolist() == [[1, 3, 5]]


# ── building ─────────────────────────────────────────────────────────────────────────────────────────────────────


def test_training_is_quiet_and_tells_how_far_it_is(capfd):
    heard = Told()
    AnnBuilder.train("IVF32,SQ8", 16, unit_rows(32 * 39, 16), progress=heard)
    assert (heard.stages, heard.done) == ([("finding lists", 10, "rounds")], 10)
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize("factory", ["Flat", "SQ8", "IVF32,SQfp16", "IVF32,RaBitQfs", PROJECTED, "HNSW16"])
def test_a_build_goes_on_after_training_and_writes_the_same_bytes(tmp_path, factory):
    vectors = unit_rows(1_500, 20)
    builder = AnnBuilder.train(factory, 20, vectors, seed=3)
    builder.write_trained(tmp_path / "trained")
    resumed = AnnBuilder.open_trained(tmp_path / "trained", threads=2)
    for one in (builder, resumed):
        for block in np.array_split(vectors, 4):
            one.add(block)
    builder.write(tmp_path / "a")
    resumed.write(tmp_path / "b")
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()
    assert AnnIndex.open(tmp_path / "a").size == 1_500


@pytest.mark.parametrize("factory", mostly_slow(["IVF32,SQ8", PROJECTED, "HNSW16"], quick=[0, 2]))
def test_build_is_the_same_for_any_threads_and_lists_for_any_blocks(tmp_path, factory):
    vectors = unit_rows(3_000, 32)
    for name, threads, block in (("a", 1, 3_000), ("b", 2, 3_000), ("c", 2, 170)):
        built(factory, vectors, threads=threads, block=block, seed=5).write(tmp_path / name)
    a, b, c = ((tmp_path / name).read_bytes() for name in "abc")
    assert a == b
    if factory != "HNSW16":  # whose links depend on what is added together
        assert a == c


def test_the_seed_decides_which_lists_there_are(tmp_path):
    vectors = unit_rows(6_000, 16)
    for seed in (1, 2):
        AnnBuilder.train("IVF32,Flat", 16, vectors, seed=seed).write_trained(tmp_path / f"{seed}")
    assert (tmp_path / "1").read_bytes() != (tmp_path / "2").read_bytes()


def test_lists_lie_among_the_vectors_they_were_found_in():
    vectors = unit_rows(4_000, 16)
    index = AnnBuilder.train("IVF40,Flat", 16, vectors)._index
    centroids = index.quantizer.reconstruct_n(0, 40)
    assert np.allclose(np.linalg.norm(centroids, axis=1), 1, atol=1e-5)
    own = np.random.default_rng(0).permutation(4_000)[:40]
    assert (vectors @ centroids.T).max(axis=1).mean() > 1.1 * (vectors @ vectors[own].T).max(axis=1).mean()


def test_too_few_vectors_to_train_on_are_refused_with_the_number_needed():
    with refusing(Usage, "256", "9,984", "9,983"):
        AnnBuilder.train("IVF256,SQ8", 4, unit_rows(9_983, 4))
    with refusing(Usage, "SQ8"):
        AnnBuilder.train("SQ8", 4, unit_rows(0, 4))


@pytest.mark.parametrize(
    ("factory", "rows", "wanted"),
    [
        ("Flat", 10**6, 0),
        ("HNSW32", 10**6, 0),
        ("SQfp16", 10**6, 0),
        ("SQ8", 10**6, 65_536),
        ("IVF4096,SQfp16", 10**6, 262_144),
        ("IVF64,Flat", 10**6, 65_536),
        ("IVF4096,SQ8", 100_000, 100_000),
        ("PCAR128,IVF4096,PQ64x4fs", 10**6, 262_144),
    ],
)
def test_how_large_a_sample_should_be(factory, rows, wanted):
    assert AnnBuilder.training_rows(factory, rows) == wanted


@pytest.mark.parametrize(
    ("factory", "why"),
    [
        ("Foo", "Foo"),
        ("", "names no kind"),
        ("IVF64,SQ8\0", "names no kind"),
        ("IVF99999999999999,Flat", "names no kind"),
        ("IVF2000000,Flat", "names no kind"),
        ("IVF0,SQ8", "names no kind"),
        ("HNSW0", "names no kind"),
        ("IVF64,PQ7", "IVF64,PQ7"),
        ("IVF64,PQ8", "IVF64,PQ8"),
        ("PCAR16,IVF64,SQ8", "behind a projection, only lists with codes such as PQ64x4fs were tried"),
        ("PCAR16,Flat", "behind a projection"),
        ("PCAR12,IVF64,PQ6x4fs", "PCAR12,IVF64,PQ6x4fs"),
        ("PCAR24,IVF64,PQ12x4fs", "PCAR24,IVF64,PQ12x4fs"),
        ("PCAR0,IVF64,PQ8x4fs", "names no kind"),
        ("PCA8,IVF64,SQ8", "transformed first"),
        ("OPQ8,IVF64,PQ8", "transformed first"),
        ("RR16,Flat", "transformed first"),
        ("IVF64,SQ8,RFlat", "IVF64,SQ8,RFlat"),
        ("IDMap,Flat", "not among the kinds"),
        ("NSG16", "not among the kinds"),
        ("LSH", "LSH"),
        ("IVF4_NSG8,Flat", "IVF4_NSG8,Flat"),
    ],
)
def test_what_cannot_be_used_is_refused_with_the_reason(factory, why):
    with refusing(Usage, why) as refused:
        AnnKind.of(factory, 16)
    assert "\n" not in str(refused.value)
    assert repr(factory)[1:-1] in str(refused.value)


@pytest.mark.parametrize("factory", KINDS + GRAPHS)
def test_a_kind_knows_how_large_its_file_will_be(tmp_path, factory):
    vectors = unit_rows(6_000, 20)
    built(factory, vectors).write(tmp_path / "v")
    kind = AnnKind.of(factory, 20)
    expected = 6_000 * kind.row_bytes + kind.lists * kind.list_bytes
    assert (tmp_path / "v").stat().st_size == pytest.approx(expected, rel=0.03, abs=3_000)


# ── files ────────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("factory", KINDS + GRAPHS)
def test_a_mapped_index_answers_as_one_that_was_read(tmp_path, factory):
    vectors = unit_rows(2_500, 20)
    built(factory, vectors).write(tmp_path / "v")
    before = (tmp_path / "v").read_bytes()
    both = [AnnIndex.open(tmp_path / "v", mapped=mapped).search(vectors[:90], 9, 6) for mapped in (True, False)]
    assert both[0][0].tolist() == both[1][0].tolist()
    assert both[0][1].tobytes() == both[1][1].tobytes()
    assert (tmp_path / "v").read_bytes() == before


@pytest.mark.parametrize("factory", ["Flat", "SQ8", "IVF32,SQfp16", "IVF32,RaBitQfs", PROJECTED, "HNSW16"])
def test_a_damaged_file_is_corrupt_by_name(tmp_path, factory):
    path = tmp_path / "v"
    built(factory, unit_rows(1_500, 16)).write(path)
    whole = path.read_bytes()
    for length in (0, 3, 4, 20, len(whole) // 3, len(whole) - 1):
        path.write_bytes(whole[:length])
        for mapped in (True, False):
            with refusing(Corrupt, path) as damage:
                AnnIndex.open(path, mapped=mapped)
            assert "\n" not in str(damage.value)
    path.write_bytes(b"a text, and no index at all; " * 99)
    with refusing(Corrupt):
        AnnIndex.open(path)
    path.unlink()
    for mapped in (True, False):
        with refusing(Corrupt, path):
            AnnIndex.open(path, mapped=mapped)


def test_an_index_of_another_kind_is_corrupt(tmp_path):
    for number, index in enumerate((faiss.IndexFlatL2(8), faiss.index_factory(8, "PCA4,Flat"))):
        path = tmp_path / f"{number}"
        faiss.write_index(index, str(path))
        with refusing(Corrupt):
            AnnIndex.open(path)


def test_a_full_disk_is_named_and_leaves_nothing_behind(tmp_path):
    builder = built("Flat", unit_rows(3_000, 16))
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (50_000, limits[1]))
    try:
        with refusing(StorageFull):
            builder.write(tmp_path / "v")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert list(tmp_path.iterdir()) == []
    builder.write(tmp_path / "v")
    assert AnnIndex.open(tmp_path / "v").size == 3_000
