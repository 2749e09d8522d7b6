"""`refaug bots play`: bots over an index play, are checked against its log, travel to another home, and are removed."""

from __future__ import annotations

from pathlib import Path

import orjson
from endpoints import FakeEndpoint, Received, Sent, openai
from integration.conftest import Home

ONE = ("--threads", "1")
BM25 = "retrieval:chat,mode=bm25-utterance"
DRAWN = "retrieval:chat,k=8"
PLAY = (
    "bots",
    "play",
    BM25,
    DRAWN,
    "--conversations",
    "12",
    "--turns",
    "6",
    "--start",
    "log:chat",
    "--name",
    "pair",
    *ONE,
)


def conversations(home: Home, version: str) -> bytes:
    return (home.path / "self-plays" / "pair" / version / "conversations.jsonl").read_bytes()


def test_two_bots_play_and_are_checked_against_the_log_of_their_index(ready: Home) -> None:
    played = ready(*PLAY, "--json")
    assert played.code == 0, played.err
    assert played.json["conversations"] == 24
    again = ready(*PLAY, "--batch", "5", "--json").json
    first, second = (conversations(ready, each["version"]) for each in (played.json, again))
    assert first == second
    rows = list(map(orjson.loads, first.splitlines()))
    assert [row["bot"] for row in rows] == [BM25] * 12 + [DRAWN] * 12
    assert [row["start"] for row in rows[:12]] == [row["start"] for row in rows[12:]]
    responses = {pair.response for pair in ready.open().pairs()}
    assert all(turn["text"] in responses for row in rows for turn in row["turns"])
    checked = ready("bots", "check", "pair", "--log", "chat", "--json").json
    assert [bot["bot"] for bot in checked["bots"]] == [BM25, DRAWN]
    assert [each["possible"] for each in checked["bots"][0]["overlap_among"]] == [66, 66, 66]
    assert [each["possible"] for each in checked["bots"][0]["overlap_with_log"]] == [12, 12, 12]
    assert "word for word" in ready("bots", "check", "pair", "--log", "chat").out


def test_versions_are_listed_exported_imported_and_removed(ready: Home, home_at, tmp_path: Path) -> None:
    version = ready(*PLAY, "--json").json["version"]
    listed = ready("artefacts", "list", "self-play", "--json").json["versions"]
    newest = next(row for row in listed if row["version"] == version)
    assert (newest["published"], newest["conversations"], newest["turns"]) == (True, 24, 6)
    shown = ready("artefacts", "show", "self-play", f"pair@{version}", "--json").json
    assert shown["start"] == "log:chat"
    assert shown["bots"][0]["provenance"]["mode"] == "bm25-utterance"
    file = tmp_path / "pair.tar.zst"
    assert ready("artefacts", "export", "self-play", "pair", file).code == 0
    other = home_at(tmp_path / "other")
    assert other("artefacts", "import", file).code == 0
    assert (
        other("bots", "check", "pair", "--json").json["bots"] == (ready("bots", "check", "pair", "--json").json["bots"])
    )
    assert other("artefacts", "remove", "self-play", "pair").code == 2
    assert other("artefacts", "remove", "self-play", "pair", "--yes").code == 0
    assert other("artefacts", "list", "self-play", "--json").json == {"versions": []}
    assert "bots play BOT --name NAME" in other("artefacts", "list", "self-play").out


def test_an_empty_start_is_begun_by_the_bot_with_what_its_seed_draws(ready: Home) -> None:
    play = ("bots", "play", BM25, DRAWN, "--conversations", "6", "--turns", "3", "--name", "pair", *ONE, "--json")
    versions = [ready(*play, "--batch", batch).json["version"] for batch in ("2", "6")]
    assert conversations(ready, versions[0]) == conversations(ready, versions[1])
    rows = list(map(orjson.loads, conversations(ready, versions[0]).splitlines()))
    assert all(row["start"] == [] and len(row["turns"]) == 3 for row in rows)
    responses = {pair.response for pair in ready.open().pairs()}
    assert all(turn["text"] in responses for row in rows for turn in row["turns"])
    assert len({row["turns"][0]["text"] for row in rows}) > 3


def test_what_cannot_be_played_is_refused(ready: Home) -> None:
    for options in (
        ("retrieval:chat", "--rules", "free"),
        ("retrieval:chat", "--start", "middle"),
        ("retrieval:chat", "retrieval:chat"),
    ):
        assert ready("bots", "play", *options, "--name", "none", *ONE).code == 2
    unknown = ready("bots", "play", "nothing", "--name", "none", *ONE)
    assert (unknown.code, "nothing" in unknown.err) == (3, True)
    assert (
        ready("bots", "play", BM25, "--conversations", "99999", "--start", "log:chat", "--name", "none", *ONE).code == 3
    )


def test_a_bot_that_was_changed_since_it_played_is_named(home: Home, tmp_path: Path) -> None:
    file = tmp_path / "fixed.json"
    file.write_bytes(orjson.dumps({"kind": "replay", "replies": ["One.", "Two."], "cycle": True}))
    assert home("bots", "add", "fixed", file).code == 0
    assert home("bots", "play", "fixed", "--conversations", "2", "--turns", "2", "--name", "alone").code == 0
    assert "was changed" not in home("artefacts", "show", "self-play", "alone").err
    file.write_bytes(orjson.dumps({"kind": "replay", "replies": ["Three."]}))
    assert home("bots", "add", "fixed", file, "--replace").code == 0
    assert "was changed since: it is fixed#" in home("artefacts", "show", "self-play", "alone").err
    assert home("bots", "remove", "fixed").code == 0
    assert "was removed since" in home("bots", "check", "alone").err


def test_an_endpoint_that_never_answers_is_named_and_its_part_is_played_when_asked_again(
    home: Home, tmp_path: Path
) -> None:
    is_up = list[bool]()

    def respond(request: Received) -> Sent | dict[str, object]:
        return openai(f"Answer to {request.prompt}") if is_up else Sent(hangs=True)

    starts = tmp_path / "starts.txt"
    starts.write_text("Hello there.\nHow are you?\n")
    endpoint = FakeEndpoint(respond)
    try:
        for name, spec in {
            "fixed": {"kind": "replay", "replies": ["One.", "Two."]},
            "far": {"kind": "openai", "url": endpoint.url, "model": "m", "timeout_s": 0.3, "tries": 1},
        }.items():
            file = tmp_path / f"{name}.json"
            file.write_bytes(orjson.dumps(spec))
            assert home("bots", "add", name, file).code == 0
        play = ("bots", "play", "far", "fixed", "--conversations", "2", "--turns", "2", "--name", "two", "--start")
        silent = home(*play, f"file:{starts}", "--json")
        assert (silent.code, silent.json["silent"]) == (3, ["far"])
        assert "far has no reply to any start: timeout (2); the other bots have played" in silent.err
        assert "refaug bots try far" in silent.err
        played = home.path / "self-plays" / "two" / silent.json["version"] / "conversations.jsonl"
        rows = list(map(orjson.loads, played.read_bytes().splitlines()))
        assert [row["bot"] for row in rows] == ["far"] * 2 + ["fixed"] * 2
        assert [[turn["text"] for turn in row["turns"]] for row in rows[2:]] == [
            ["One.", "One."]
        ] * 2  # each side has its own place
        table = home("bots", "check", "two").out
        assert next(line.split() for line in table.splitlines() if line.split()[:2] == ["far", "2"])
        asked = len(endpoint.received)
        is_up.append(True)
        again = home(*play, f"file:{starts}", "--json", "--retry")
        assert (again.code, again.json["silent"], again.json["played_again"]) == (0, [], 2)
        assert len(endpoint.received) == asked + 4  # two turns of two conversations
        assert home("bots", "check", "two", "--json").json["bots"][0]["ended_early"] == 0
    finally:
        endpoint.close()
