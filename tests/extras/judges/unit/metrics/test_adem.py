"""The metric adem with a judge worked out by eye."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pytest
from refusals import refusing

from refaug.core.errors import Usage
from refaug.extras.judges.metrics.adem import FittedReplies, ReplyToJudge
from refaug.metrics.base import TRAINED_ON, Floats, Level, References
from refaug.metrics.signature import Signature
from refaug.metrics.specification import build


class CountingJudge:
    """Scores a reply by its words, less the words of its references; 6 and more for long ones."""

    settings: Mapping[str, str] = {"state": "context", "model": "chat@1#0123456789ab", "vhred": "v@1#ba9876543210"}

    def __init__(self, form: str = "full", seen: Sequence[str] = ()) -> None:
        self.form, self._seen = form, seen
        self.asked_replies = list[ReplyToJudge]()

    def judge(self, replies: Sequence[ReplyToJudge], *, multiple: str) -> Floats:
        self.asked_replies += replies
        merge = np.max if multiple == "max" else np.mean
        return np.array(
            [
                merge([len(reply.reply.split()) + len(text.split()) / 10 for text in reply.references or ("",)])
                for reply in replies
            ]
        )

    def has_seen(self, reply: ReplyToJudge) -> bool:
        return bool(self._seen) and reply.turns[-1:] == tuple(self._seen)

    def remarks(self) -> tuple[str, ...]:
        return ()


def _metric(text: str = "adem", judge: CountingJudge | None = None) -> FittedReplies:
    metric = build(text)
    assert isinstance(metric, FittedReplies)
    return metric.with_judge(judge or CountingJudge(metric.settings["form"]))


def _references(*golds: str, turns: Sequence[str] = ("Hello.", "How are you?")) -> References:
    return References(golds, (1.0,) * len(golds), beside=References((), (), -1, "\x1e".join(turns)))


def _scores(metric: FittedReplies, references: References, *replies: str) -> list[float]:
    rows = metric.statistics(
        replies, metric.prepare([references]), np.arange(len(replies)), np.zeros(len(replies), dtype=np.int64)
    )
    return [float(score) for score in metric.values(rows, Level.REPLY)]


def test_the_judge_sees_all_turns_the_gold_and_the_reply() -> None:
    judge = CountingJudge()
    assert _scores(_metric(judge=judge), _references("fine thanks"), "so so today") == [3.2]
    assert judge.asked_replies == [
        ReplyToJudge(turns=("Hello.", "How are you?"), references=("fine thanks",), reply="so so today")
    ]


def test_an_empty_reply_has_the_least_of_the_scale_unasked() -> None:
    judge = CountingJudge()
    assert _scores(_metric(judge=judge), _references("fine"), " ") == [1.0]
    assert judge.asked_replies == []


def test_several_references_count_by_their_mean_or_the_most() -> None:
    references = _references("one", "one two three")
    assert _scores(_metric("adem:refs=own"), references, "a b") == [2.2]
    assert _scores(_metric("adem:refs=own,multi=max"), references, "a b") == [2.3]


def test_scores_leave_the_scale_unless_they_are_clipped() -> None:
    assert _scores(_metric(), _references("x"), "a b c d e f g") == [7.1]
    assert _scores(_metric("adem:clip=yes"), _references("x"), "a b c d e f g") == [5.0]


def test_rows_that_the_judge_was_fitted_to_have_no_score() -> None:
    metric = _metric(judge=CountingJudge(seen=["How are you?"]))
    prepared = metric.prepare([_references("x")])
    assert np.isnan(_scores(metric, _references("x"), "a", "")).all()
    assert metric.problem_of("a", prepared, 0) == TRAINED_ON


def test_seen_keep_scores_them_and_stands_in_the_signature() -> None:
    metric = _metric("adem:seen=keep", CountingJudge(seen=["How are you?"]))
    assert _scores(metric, _references("x"), "a b") == [2.1]
    assert "|seen:keep|" in Signature.of(metric).short
    assert any("seen=keep" in remark for remark in metric.remarks())


def test_the_signature_names_state_adem_and_vhred() -> None:
    assert Signature.of(_metric()).short.startswith(
        "adem|model:chat@1#0123456789ab|form:full|refs:gold|multi:mean|clip:no|seen:drop|state:context|vhred:v@1#"
    )


@pytest.mark.parametrize(
    ("text", "references", "code"),
    [
        ("adem", _references("x", turns=()), "no_utterance"),
        ("adem", _references(), "no_gold"),
        ("adem:form=context", References((), (), -1, ""), "no_utterance"),
        ("adem:form=reference", _references(), "no_gold"),
    ],
)
def test_a_missing_part_of_the_form_is_a_problem(text: str, references: References, code: str) -> None:
    assert _metric(text).prepare([references]).problems[0].code == code


def test_the_reference_form_needs_no_context() -> None:
    assert _scores(_metric("adem:form=reference"), _references("x", turns=()), "a b") == [2.1]


def test_a_judge_of_another_form_is_refused() -> None:
    with refusing(Usage):
        _metric("adem", CountingJudge("context"))


def test_without_a_judge_it_refuses_to_score() -> None:
    with refusing(Usage, "adem"):
        build("adem").prepare([_references("x")])
