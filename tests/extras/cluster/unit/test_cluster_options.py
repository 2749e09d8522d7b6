"""Options of commands that work on a cluster, where they have no effect, and addresses that are none."""

from __future__ import annotations

import pytest

from refaug.cli.main import main

BOTH = "both or neither: on names the cluster, workers the number of processes that train"


@pytest.mark.parametrize(
    ("command", "message"),
    [
        (("score", "items.jsonl", "--on", "auto"), "--on: a cluster finds references in an index"),
        (("agreement", "items.jsonl", "--on", "auto"), "--on: a cluster finds references in an index"),
        (("train", "rater", "chat", "--on", "auto"), f"--on: {BOTH}"),
        (("train", "rater", "chat", "--workers", "2"), f"--workers: {BOTH}"),
        (
            ("train", "rater", "chat", "--on", "auto", "--workers", "2", "--accumulate", "3"),
            "--accumulate: 2 workers cannot share steps of 3 batches evenly",
        ),
        (
            ("train", "rater", "chat", "--on", "ray://head:10001", "--workers", "2"),
            "'ray://head:10001' is not the address of a cluster",
        ),
        (
            ("sets", "references", "items.jsonl", "--index", "chat", "--reference-weights", "one", "--on", "head"),
            "'head' is not the address of a cluster",
        ),
        (
            ("sets", "references", "items.jsonl", "--index", "chat", "--on", "auto"),
            "--rater: references are to be rated, and no rater is named",
        ),
    ],
    ids=lambda command: " ".join(command[:2]) if isinstance(command, tuple) else "",
)
def test_what_a_cluster_has_no_part_in_is_refused(tmp_path, capsys, command, message):
    (tmp_path / "items.jsonl").write_bytes(b'{"utterance": "a", "references": ["b"], "replies": {"s": "c"}}\n')
    named = [str(tmp_path / one) if one == "items.jsonl" else one for one in command]
    assert main(["--home", str(tmp_path / "home"), *named]) == 2
    assert str(message) in capsys.readouterr().err
