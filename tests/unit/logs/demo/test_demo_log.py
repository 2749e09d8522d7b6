"""The demo log and its test file: what later acceptance tests take for granted about them."""

from __future__ import annotations

import hashlib
import itertools
import math
import random
import re
from collections import Counter, defaultdict
from collections.abc import Iterator

import numpy as np
import orjson
import pytest

from refaug.core.errors import Usage
from refaug.logs.demo.demo_items import (
    DECENT,
    GENERIC,
    HUMAN_LIKE,
    RANDOM,
    DemoItemSettings,
    demo_item_lines,
    demo_items,
)
from refaug.logs.demo.generator import (
    REPAIRS,
    SHORT,
    SPEAKERS,
    VAGUE_BEGINNINGS,
    VAGUE_ENDS,
    DemoSettings,
    Register,
    demo_dialogues,
    demo_log_lines,
    draw_slots,
    is_reserved,
    polite,
    reserved_reply,
    terse,
)
from refaug.logs.demo.topics import COMMON_SLOTS, SLOT, TOPICS, Intent, Topic, fill


def templates_of(topic: Topic) -> Iterator[str]:
    """Every sentence of a topic, as written."""
    for opener in topic.openers:
        yield from opener.says
        for reply in opener.replies:
            yield reply.text
            if reply.answer:
                yield reply.answer
    yield from (follow_up.text for follow_up in topic.follow_ups)
    yield from topic.later
    yield from topic.closings


SYSTEMS = [HUMAN_LIKE, DECENT, GENERIC, RANDOM]
SEEDS = [1, 2, 3, 4, 5]


@pytest.fixture(scope="module")
def log():
    return list(demo_dialogues(DemoSettings()))


@pytest.fixture(scope="module")
def responses(log):
    """Utterance → the texts that answered it."""
    found = defaultdict(list)
    for dialogue in log:
        for utterance, response in itertools.pairwise(turn.text for turn in dialogue.turns):
            found[utterance].append(response)
    return found


@pytest.fixture(scope="module")
def items():
    return {seed: demo_items(DemoItemSettings(seed=seed)) for seed in SEEDS}


def words(text):
    return re.findall(r"\w+", text.lower())


def average_ranks(values):
    _, places, counts = np.unique(values, return_inverse=True, return_counts=True)
    return (np.cumsum(counts) - (counts - 1) / 2)[places]


def pearson(one, other):
    return float(np.corrcoef(one, other)[0, 1])


def spearman(one, other):
    return pearson(average_ranks(one), average_ranks(other))


def overlap(reply, references):
    """BLEU-2 by hand: clipped precisions of words and word pairs, the second one smoothed by one; no length penalty."""
    hypothesis, against = words(reply), [words(reference) for reference in references]
    value = 1.0
    for order in (1, 2):
        grams = Counter(zip(*(hypothesis[start:] for start in range(order)), strict=False))
        most = Counter()
        for tokens in against:
            most |= Counter(zip(*(tokens[start:] for start in range(order)), strict=False))
        smooth = order - 1
        value *= ((grams & most).total() + smooth) / max(1, grams.total() + smooth)
    return math.sqrt(value)


# The log


def test_the_same_settings_give_the_same_bytes_on_every_machine():
    digest = hashlib.sha256(b"".join(demo_log_lines(DemoSettings(dialogues=200)))).hexdigest()
    assert digest == "a82f0240c71b7e073742ed4ab483899c85749d57e65aee03e8ba35927f23b70f"


def test_a_short_log_is_the_beginning_of_a_long_one():
    long = list(demo_log_lines(DemoSettings(dialogues=60, seed=5)))
    assert list(demo_log_lines(DemoSettings(dialogues=25, seed=5))) == long[:25]


def test_another_seed_gives_other_dialogues():
    one, other = (next(demo_dialogues(DemoSettings(dialogues=1, seed=seed))) for seed in (1, 2))
    assert one.turns != other.turns


def test_line_holds_id_turns_tags_and_wrong_positions_if_there_are_any():
    for dialogue, line in zip(
        demo_dialogues(DemoSettings(dialogues=300)), demo_log_lines(DemoSettings(dialogues=300)), strict=True
    ):
        assert line.endswith(b"}\n")
        assert line.count(b"\n") == 1
        read = orjson.loads(line)
        assert read["id"] == dialogue.id
        assert read["turns"][-1] == {
            "text": dialogue.turns[-1].text,
            "speaker": dialogue.turns[-1].speaker,
            "time": dialogue.turns[-1].time,
        }
        assert read["tags"] == [dialogue.topic, dialogue.register]
        assert read.get("wrong", []) == sorted(dialogue.wrong)
        assert ("wrong" in read) == bool(dialogue.wrong)


def test_dialogues_have_two_to_eight_alternating_turns_with_rising_times(log):
    assert {len(dialogue.turns) for dialogue in log} == set(range(2, 9))
    speakers = {turn.speaker for dialogue in log for turn in dialogue.turns}
    assert speakers == {f"speaker-{number:03d}" for number in range(1, SPEAKERS + 1)}
    for dialogue in log:
        first, second = dialogue.turns[0].speaker, dialogue.turns[1].speaker
        assert first != second
        assert [turn.speaker for turn in dialogue.turns] == ([first, second] * 4)[: len(dialogue.turns)]
        times = [turn.time for turn in dialogue.turns]
        assert times == sorted(set(times))
        assert all(re.fullmatch(r"2026-\d\d-\d\dT\d\d:\d\d:\d\dZ", time) for time in times)
    assert [log[0].id, log[-1].id] == ["demo/000001", "demo/020000"]
    assert log[0].turns[0].time.startswith("2026-01-01T")


def test_every_topic_and_every_register_is_there(log):
    assert {dialogue.topic for dialogue in log} == {topic.name for topic in TOPICS}
    assert {dialogue.register for dialogue in log} == {register.value for register in Register}
    at_desk = {dialogue.topic for dialogue in log if dialogue.register == "desk"}
    assert at_desk == {topic.name for topic in TOPICS if topic.has_desk}


def test_wrong_turns_come_at_the_rate_that_was_asked_for(log):
    responses_in_all = sum(len(dialogue.turns) - 1 for dialogue in log)
    wrong = sum(len(dialogue.wrong) for dialogue in log)
    spread = math.sqrt(responses_in_all * 0.08 * 0.92)
    assert abs(wrong - 0.08 * responses_in_all) < 3 * spread
    assert not any(0 in dialogue.wrong for dialogue in log)


@pytest.mark.parametrize("noise", [0.0, 1.0])
def test_noise_may_be_none_or_all(noise):
    for dialogue in demo_dialogues(DemoSettings(dialogues=200, noise=noise)):
        assert dialogue.wrong == (set(range(1, len(dialogue.turns))) if noise else set())


def test_wrong_turns_and_only_they_are_sentences_of_another_topic(log):
    def patterns(topic):
        return [re.compile(SLOT.sub("(.+)", re.escape(t).replace(r"\{", "{").replace(r"\}", "}"))) for t in topic]

    own = {topic.name: patterns({t[0].upper() + t[1:] for t in templates_of(topic)}) for topic in TOPICS}
    repairs = patterns(REPAIRS)

    def is_sentence(text, name):
        return any(pattern.fullmatch(text) for pattern in own[name])

    def belongs(text, name):  # a follow-up may be two sentences of the topic
        ends = [found.end() for found in re.finditer(r"[.!?] ", text)]
        return is_sentence(text, name) or any(
            is_sentence(text[: end - 1], name) and is_sentence(text[end:], name) for end in ends
        )

    casual = [dialogue for dialogue in log if dialogue.register == "casual"][:1500]
    seen_wrong = 0
    for dialogue in casual:
        for position, turn in enumerate(dialogue.turns):
            if position in dialogue.wrong:
                seen_wrong += 1
                assert not belongs(turn.text, dialogue.topic)
                assert any(belongs(turn.text, name) for name in own if name != dialogue.topic)
            elif turn.text not in SHORT and not any(repair.fullmatch(turn.text) for repair in repairs):
                is_goodbye = position == len(dialogue.turns) - 1
                assert is_goodbye or belongs(turn.text, dialogue.topic)
    assert seen_wrong > 200


def test_many_utterances_of_four_or_more_words_have_several_responses(log, responses):
    shared = [utterance for utterance, found in responses.items() if len(set(found)) >= 2]
    assert sum(len(utterance.split()) >= 4 for utterance in shared) >= 7000
    assert len({turn.text for dialogue in log for turn in dialogue.turns}) >= 20_000


def test_very_short_utterances_have_very_many_responses(responses):
    assert all(len(set(responses[short])) > 30 for short in SHORT)


def test_replies_and_fillings_reserved_for_the_test_file_are_not_logged(log):
    kept = {polite(reserved_reply(opener).text) for topic in TOPICS for opener in topic.openers}
    texts = {polite(turn.text) for dialogue in log for turn in dialogue.turns}
    assert not texts & {text for text in kept if "{" not in text}
    for dialogue in log:
        opening = dialogue.turns[0].text
        if dialogue.register == "casual" and not any(
            opening == say for topic in TOPICS for opener in topic.openers for say in opener.says
        ):
            assert not is_reserved(opening)


# What is written in the topics


def test_the_stock_of_sentences_is_large():
    assert len(TOPICS) == len({topic.name for topic in TOPICS}) == 50
    assert all(re.fullmatch(r"[a-z][a-z-]*", topic.name) for topic in TOPICS)
    for topic in TOPICS:
        assert len(topic.openers) >= 5, topic.name
        assert all(len(opener.replies) >= 6 for opener in topic.openers), topic.name
        assert len(topic.follow_ups) >= 7, topic.name
        assert len(topic.later) >= 4, topic.name
        assert {follow_up.to for follow_up in topic.follow_ups} == set(Intent), topic.name
        assert all(len({reply.intent for reply in opener.replies}) >= 4 for opener in topic.openers), topic.name
    assert len({template for topic in TOPICS for template in templates_of(topic)}) > 2800


def test_no_sentence_is_repeated_within_an_opener_or_a_topics_remarks():
    for topic in TOPICS:
        for opener in topic.openers:
            texts = [*opener.says, *(reply.text for reply in opener.replies)]
            assert sorted(set(texts)) == sorted(texts)
        remarks = [*topic.later, *topic.closings, *(follow_up.text for follow_up in topic.follow_ups)]
        assert sorted(set(remarks)) == sorted(remarks)


def test_every_slot_of_every_sentence_can_be_filled():
    for topic in TOPICS:
        assert not set(topic.slots) & set(COMMON_SLOTS)
        slots = draw_slots(topic, random.Random(0))
        used = {name for template in templates_of(topic) for name in SLOT.findall(template)}
        assert set(topic.slots) <= used <= set(slots)
        assert all(len(set(values)) == len(values) >= 5 for values in topic.slots.values())
        for template in templates_of(topic):
            assert not set("{}") & set(fill(template, slots))
    for template in (*REPAIRS, *VAGUE_BEGINNINGS, *VAGUE_ENDS):
        assert set(SLOT.findall(template)) <= {"subject", "day"}


def test_no_braces_or_double_spaces_are_left_in_the_log(log):
    assert not [turn.text for dialogue in log for turn in dialogue.turns if re.search(r"[{}]|  |^\s|\s$", turn.text)]


def test_short_utterances_have_at_most_three_words():
    assert all(len(short.split()) <= 3 for short in SHORT)


def test_registers_change_the_wording_as_described():
    assert polite("I'm sure it's late, we can't go.") == "I am sure it is late, we cannot go."
    assert polite("Don't go!") == "Do not go!"
    assert terse("I'm late, please wait for your bus.") == "im late pls wait 4 ur bus"


# The test file


def test_the_same_item_settings_give_the_same_bytes_on_every_machine():
    digest = hashlib.sha256(b"".join(demo_item_lines(DemoItemSettings()))).hexdigest()
    assert digest == "c6f29f584e506720af7f87fa2857bc37440722e7e5a8de752ff37de803eeb28c"


def test_an_item_has_the_shape_of_the_test_file_format():
    lines = list(demo_item_lines(DemoItemSettings(items=30, annotators=3)))
    for number, line in enumerate(lines, start=1):
        read = orjson.loads(line)
        assert list(read) == ["id", "utterance", "references", "replies", "ratings", "dialogue", "time"]
        assert read["id"] == f"demo-item-{number:04d}"
        assert list(read["replies"]) == list(read["ratings"]) == SYSTEMS
        assert all(len(ratings) == 3 and set(ratings) <= {1, 2, 3, 4, 5} for ratings in read["ratings"].values())
        assert len({*read["references"], *read["replies"].values()}) == 5


def test_no_utterance_dialogue_or_time_of_an_item_is_in_the_log(log, items):
    texts = {" ".join(words(turn.text)) for dialogue in log for turn in dialogue.turns}
    ids = {dialogue.id for dialogue in log}
    last = max(turn.time for dialogue in log for turn in dialogue.turns)
    for item in items[1]:
        assert " ".join(words(item.utterance)) not in texts
        assert item.dialogue not in ids
        assert item.time > last
    assert len({item.utterance for item in items[1]}) == 200


@pytest.mark.parametrize("seed", SEEDS)
def test_the_length_of_a_reply_does_not_give_its_rating_away(items, seed):
    rows = [(item.replies[system], np.mean(item.ratings[system])) for item in items[seed] for system in SYSTEMS]
    ratings = np.array([rating for _, rating in rows])
    for lengths in ([len(reply.split()) for reply, _ in rows], [len(reply) for reply, _ in rows]):
        assert abs(pearson(np.array(lengths, float), ratings)) < 0.05
        assert abs(spearman(np.array(lengths, float), ratings)) < 0.05


@pytest.mark.parametrize("seed", SEEDS)
def test_the_systems_reply_at_nearly_the_same_mean_length(items, seed):
    for measure, share in ((lambda reply: len(reply.split()), 0.05), (len, 0.08)):
        means = [np.mean([measure(item.replies[system]) for item in items[seed]]) for system in SYSTEMS]
        assert max(means) - min(means) < share * np.mean(means)


@pytest.mark.parametrize("seed", SEEDS)
def test_mean_ratings_put_the_systems_in_their_known_order_with_clear_gaps(items, seed):
    means = [np.mean([item.ratings[system] for item in items[seed]]) for system in SYSTEMS]
    assert all(better - worse > 0.5 for better, worse in itertools.pairwise(means))


@pytest.mark.parametrize("seed", SEEDS)
def test_annotators_agree_moderately(items, seed):
    ratings = np.array([item.ratings[system] for item in items[seed] for system in SYSTEMS])
    agreement = [spearman(ratings[:, a], ratings[:, b]) for a, b in itertools.combinations(range(4), 2)]
    assert 0.5 < np.mean(agreement) < 0.7


def test_overlap_with_responses_to_similar_utterances_ranks_the_systems(responses, items):
    utterances = list(responses)
    frequency = Counter(word for utterance in utterances for word in set(words(utterance)))
    worth = {word: math.log(len(utterances) / count) ** 2 for word, count in frequency.items()}
    norms = np.zeros(len(utterances))
    places = defaultdict(list)
    for place, utterance in enumerate(utterances):
        for word in set(words(utterance)):
            places[word].append(place)
            norms[place] += worth[word]

    def references(item):
        similarity = np.zeros(len(utterances))
        for word in set(words(item.utterance)) & places.keys():
            similarity[places[word]] += worth[word]
        found = []
        for place in np.argsort(-similarity / np.sqrt(norms + 1e-9), kind="stable")[:15]:
            found += responses[utterances[place]]
        return [*item.references, *list(dict.fromkeys(found))[:15]]

    chosen = items[1][:120]
    against = [references(item) for item in chosen]
    many, alone = (
        [np.mean([overlap(item.replies[s], refs) for item, refs in zip(chosen, sets, strict=True)]) for s in SYSTEMS]
        for sets in (against, [item.references for item in chosen])
    )
    assert many[0] - many[1] > 0.1
    assert many[1] - many[2] > 0.02
    assert many[2] - many[3] > 0.02
    assert alone[0] > alone[3]


# Settings


@pytest.mark.parametrize(
    ("make", "value"),
    [
        (lambda: DemoSettings(dialogues=0), "0 dialogues"),
        (lambda: DemoSettings(noise=1.5), "1.5"),
        (lambda: DemoSettings(noise=-0.1), "-0.1"),
        (lambda: DemoSettings(noise=float("nan")), "nan"),
        (lambda: DemoItemSettings(items=0), "0 items"),
        (lambda: DemoItemSettings(annotators=0), "0 annotators"),
    ],
)
def test_settings_that_make_no_sense_are_refused_with_value_and_remedy(make, value):
    with pytest.raises(Usage) as refused:
        make()
    assert value in refused.value.message
    assert refused.value.remedy
