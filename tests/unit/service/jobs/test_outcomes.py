"""What came of a job in words, for every kind."""

from __future__ import annotations

import pytest

from refaug.core.installation import OPERATIONS, registered
from refaug.operations.catalogue import find_operation
from refaug.service.jobs.outcomes import outcome_of

NIGHT = {"index": "chat", "version": "2026-11-20.7", "published": True, "ingest": {"pairs_added": 819}}
BUILT = {"index": "chat", "version": "2026-11-20.1", "published": True, "new": True, "pairs": 12_345}
ERASED = {"removed": {"pairs": 12}, "posted": 0, "not_found": {"dialogues": 0, "speakers": 0}}
FROZEN = {"set": "4011ff9e2c", "new": True, "items": 200, "problems": [], "more_problems": 0}


@pytest.mark.parametrize(
    ("kind", "result", "said"),
    [
        ("nightly", NIGHT, "published chat@2026-11-20.7, +819 pairs"),
        ("nightly", {**NIGHT, "ingest": {"pairs_added": 1}}, "published chat@2026-11-20.7, +1 pair"),
        ("nightly", {**NIGHT, "version": None, "published": False}, "nothing new"),
        ("index-build", BUILT, "published chat@2026-11-20.1: 12,345 pairs"),
        (
            "index-build",
            {**BUILT, "published": False, "new": False},
            "made, and did not publish, chat@2026-11-20.1, which was there already: 12,345 pairs",
        ),
        (
            "index-update",
            {**BUILT, "changed": 40, "gone": 1},
            "published chat@2026-11-20.1: 40 utterances new or changed, 1 utterance removed",
        ),
        ("index-update", {"index": "chat", "version": None, "changed": 0, "gone": 0}, "nothing new"),
        ("index-compact", BUILT, "published chat@2026-11-20.1: 12,345 pairs"),
        ("index-encode", {"new": 9}, "encoded 9 texts"),
        ("ingest", {"log": "chat", "pairs_added": 2}, "+2 pairs into log chat"),
        ("ingest", {"log": "chat", "pairs_added": 0}, "nothing new"),
        ("vectors", {"vectors": "v", "version": "1", "published": True, "words": 1_000}, "published v@1: 1,000 words"),
        ("rater-train", {"rater": "base", "version": "3", "published": True}, "published base@3"),
        ("freeze", FROZEN, "froze set 4011ff9e, 200 items"),
        (
            "freeze",
            {**FROZEN, "new": False, "problems": [{}], "more_problems": 1},
            "was there already: set 4011ff9e, 200 items, 2 items left out",
        ),
        ("score", {"replies": 1, "scores": [{}, {}]}, "scored 1 reply by 2 metrics"),
        ("meta", {"metrics": [{}]}, "agreement of 1 metric"),
        ("replies", {"items": 3, "bots": {"a": {}}}, "replies of 1 bot to 3 items"),
        ("erase", ERASED, "removed 12 pairs"),
        (
            "erase",
            {**ERASED, "removed": {}, "posted": 1, "not_found": {"dialogues": 2, "speakers": 0}},
            "removed 0 pairs and 1 waiting dialogue; 2 dialogues not found",
        ),
        ("gc", {"removed": ["1", "2"]}, "removed 2 old versions"),
        ("gc", {"removed": []}, "no old version to remove"),
        ("self-play", {"conversations": 4}, "4 conversations"),
        ("hybrid-fit", {"version": "2"}, "made version 2"),
        ("of another package", {"answer": 42}, "done"),
    ],
)
def test_what_came_of_a_job_that_is_done(kind, result, said):
    assert outcome_of(kind, "done", result, None) == said


@pytest.mark.parametrize("kind", sorted(registered(OPERATIONS)))
def test_a_result_of_an_older_version_is_at_least_done(kind):
    assert find_operation(kind)
    assert outcome_of(kind, "done", {"version": 7}, None) in {"done", "made version 7", "encoded its texts"} | (
        {"scored 0 replies by 0 metrics"} if kind == "score" else set()
    )


def test_other_ends_and_a_job_that_has_not_ended():
    assert outcome_of("nightly", "failed", None, {"message": "recall is 0.8"}) == "recall is 0.8"
    assert outcome_of("nightly", "cancelled", None, None) == "stopped before its end"
    assert outcome_of("nightly", "running", None, None) is None
