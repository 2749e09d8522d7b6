"""The guard against scoring training rows."""

from __future__ import annotations

from pathlib import Path

from adems import rated_triples
from refusals import refusing

from refaug.core.errors import Corrupt
from refaug.rater.adem.scorer.rated_triples import Triple
from refaug.rater.adem.scorer.seen_texts import SeenTexts

TURNS = ("Hello there.", "Where were you yesterday evening?")
TRIPLE = Triple(context=TURNS, reference="I was at home, reading.", reply="At the cinema.")


def test_all_training_rows_are_seen() -> None:
    triples = rated_triples().triples
    seen = SeenTexts.of(triples)
    assert all(seen.contains(triple.context, (triple.reference,), triple.reply) for triple in triples)


def test_one_changed_context_keeps_exactly_its_rows() -> None:
    triples = rated_triples(5).triples
    seen = SeenTexts.of(triples)
    changed = {triples[8].context: ("something else", "said by another person altogether")}
    kept = [not seen.contains(changed.get(t.context, t.context), (t.reference,), t.reply) for t in triples]
    assert kept == [t.context == triples[8].context for t in triples]


def test_a_context_is_seen_in_another_spelling_and_with_another_reply() -> None:
    seen = SeenTexts.of([TRIPLE])
    assert seen.contains(("hello THERE", "where were you yesterday evening"), (), "No idea")


def test_a_last_turn_counts_alone_only_with_four_words() -> None:
    seen = SeenTexts.of([TRIPLE, Triple(context=("Shall we go?", "Why not?"), reference="Yes.", reply="Good.")])
    assert seen.contains((TURNS[1],), (), "No idea")
    assert not seen.contains(("Why not?",), (), "No idea")


def test_a_long_text_without_spaces_counts_alone() -> None:
    long, short = "昨日の夜はどこにいましたか", "どうして"
    seen = SeenTexts.of([Triple(context=("はい", turn), reference=turn, reply="家です") for turn in (long, short)])
    assert [seen.contains(("いいえ", turn), (), "映画館") for turn in (long, short)] == [True, False]
    assert [seen.contains((), (turn,), "映画館") for turn in (long, short)] == [True, False]


def test_without_a_context_the_reference_counts() -> None:
    seen = SeenTexts.of([Triple(context=(), reference="I was at home, reading.", reply="At the cinema.")])
    assert seen.contains((), ("I was at home, reading.",), "Nowhere")
    assert not seen.contains((), ("Somewhere far away from here",), "At the cinema.")
    short = SeenTexts.of([Triple(context=(), reference="Yes.", reply="Good.")])
    assert short.contains((), ("Yes.",), "Good.")
    assert not short.contains((), ("Yes.",), "Bad.")


def test_file_is_sorted_hashes_of_sixteen_bytes(tmp_path: Path) -> None:
    seen, path = SeenTexts.of(rated_triples(3).triples), tmp_path / "seen.bin"
    seen.write(path)
    content = path.read_bytes()
    hashes = [content[at : at + 16] for at in range(0, len(content), 16)]
    assert hashes == sorted(seen.hashes)
    assert SeenTexts.read(path) == seen


def test_a_damaged_file_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "seen.bin"
    for content in (b"x" * 17, b"b" * 16 + b"a" * 16, b"a" * 32):
        path.write_bytes(content)
        with refusing(Corrupt, "seen.bin"):
            SeenTexts.read(path)
