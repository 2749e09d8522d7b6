"""The steps of the action as a runner would run them, with an API on loopback in place of GitHub's."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
import refaug
import yaml

ACTION = Path(__file__).resolve().parents[1]
REFERENCES = [f"It is at the market number {number}, I think." for number in range(24)]
GOOD = [f"At the market number {number}, I think." for number in range(24)]
BAD = [f"I like music and {number} dogs." for number in range(24)]


class Api:
    """What the server was asked, and the comments that it has."""

    def __init__(self) -> None:
        self.comments: list[dict[str, Any]] = []
        self.calls: list[tuple[str, str, str | None]] = []
        self.refused: int | None = None
        self.url = ""

    def answer(self, method: str, path: str, token: str | None, body: Any) -> tuple[int, Any]:
        self.calls.append((method, path, token))
        if self.refused is not None and method != "GET":
            return self.refused, {"message": "Resource not accessible by integration"}
        if method == "GET":
            page = int(re.findall(r"[?&]page=(\d+)", path)[0])
            return 200, self.comments[(page - 1) * 100 : page * 100]
        if method == "POST":
            self.comments.append({"id": 1000 + len(self.comments), **body})
            return 201, self.comments[-1]
        (comment,) = [comment for comment in self.comments if path.endswith(f"/comments/{comment['id']}")]
        comment.update(body)
        return 200, comment


@pytest.fixture
def api() -> Iterator[Api]:
    found = Api()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            length = int(self.headers.get("content-length") or 0)
            body = json.loads(self.rfile.read(length)) if length else None
            status, content = found.answer(self.command, self.path, self.headers.get("authorization"), body)
            answer = json.dumps(content).encode()
            self.send_response(status)
            self.send_header("content-length", str(len(answer)))
            self.end_headers()
            self.wfile.write(answer)

        do_POST = do_PATCH = do_GET

        def log_message(self, *_: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    found.url = f"http://127.0.0.1:{server.server_port}"
    yield found
    server.shutdown()
    thread.join()
    server.server_close()


def score_file(path: Path, replies: list[str], metrics: list[str]) -> Path:
    items = [{"id": f"i{number}", "references": [gold]} for number, gold in enumerate(REFERENCES)]
    path.write_text(json.dumps(refaug.score(items, predictions=replies, metrics=metrics).to_dict()), "utf-8")
    return path


def step(folder: Path, api: Api, *, event: Any = None, **inputs: str) -> subprocess.CompletedProcess[str]:
    """Run the step that compares and comments, with the inputs that a workflow gives and the defaults of the others."""
    action = yaml.safe_load((ACTION / "action.yml").read_text("utf-8"))
    defaults = {name: str(content.get("default", "")) for name, content in action["inputs"].items()}
    assert {name for name, content in action["inputs"].items() if content.get("required")} == {"before", "after"}
    given = {**defaults, "token": "t0ken", **{name.replace("_", "-"): text for name, text in inputs.items()}}
    _, compares = action["runs"]["steps"]
    environment = {
        name: re.sub(r"\$\{\{ inputs\.([a-z-]+) \}\}", lambda match: given[match[1]], text)
        for name, text in compares["env"].items()
    }
    (folder / "event.json").write_text(json.dumps(event or {"pull_request": {"number": 7}}), "utf-8")
    return subprocess.run(
        ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", compares["run"]],
        check=False,
        capture_output=True,
        text=True,
        cwd=folder,
        env={
            **os.environ,
            **environment,
            "PATH": f"{folder / 'bin'}:{Path(sys.executable).parent}:{os.environ['PATH']}",
            "GITHUB_ACTION_PATH": str(ACTION),
            "GITHUB_API_URL": api.url,
            "GITHUB_EVENT_PATH": str(folder / "event.json"),
            "GITHUB_REPOSITORY": "team/bot",
            "GITHUB_STEP_SUMMARY": str(folder / "summary.md"),
        },
    )


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with the command refaug, as a runner has it once it is installed."""
    (tmp_path / "bin").mkdir()
    command = tmp_path / "bin" / "refaug"
    command.write_text(f'#!/bin/sh\nexec {sys.executable} -m refaug "$@"\n', "utf-8")
    command.chmod(0o755)
    score_file(tmp_path / "bad.json", BAD, ["chrf", "bleu"])
    score_file(tmp_path / "good.json", GOOD, ["chrf", "bleu"])
    return tmp_path


def test_a_pull_request_has_one_comment_that_later_runs_change(folder: Path, api: Api) -> None:
    api.comments = [{"id": number, "body": "Thanks!"} for number in range(100)]
    done = step(folder, api, before="bad.json", after="good.json")
    assert done.returncode == 0, done.stdout + done.stderr
    assert [(method, path) for method, path, _ in api.calls] == [
        ("GET", "/repos/team/bot/issues/7/comments?per_page=100&page=1"),
        ("GET", "/repos/team/bot/issues/7/comments?per_page=100&page=2"),
        ("POST", "/repos/team/bot/issues/7/comments"),
    ]
    assert {token for *_, token in api.calls} == {"Bearer t0ken"}
    first = api.comments[-1]["body"]
    assert first.startswith("<!-- refaug: Replies before and after -->\n### Replies before and after\n")
    before, after = (refaug.score(predictions=texts, references=[[gold] for gold in REFERENCES], metric="chrf").mean()
                     for texts in (BAD, GOOD))  # fmt: skip
    assert f"| chrf (mean) | model | {before:.4f} | {after:.4f} | {after - before:+.4f} | [" in first
    assert first.count(" | 24 | better |") == 2
    assert (folder / "summary.md").read_text("utf-8") == first.partition("\n")[2]
    done = step(folder, api, before="good.json", after="good.json")
    assert done.returncode == 0, done.stdout + done.stderr
    assert len(api.comments) == 101
    assert api.calls[-1][:2] == ("PATCH", f"/repos/team/bot/issues/comments/{api.comments[-1]['id']}")
    assert api.comments[-1]["body"].count("| no difference is shown |") == 2


def test_worse_replies_fail_the_step_after_the_comment(folder: Path, api: Api) -> None:
    done = step(folder, api, before="good.json", after="bad.json", options="--confidence 0.9\n--metric chrf\n")
    assert done.returncode == 1
    assert done.stdout.endswith("::error::worse beyond chance: chrf\n")
    assert "| **worse** |" in api.comments[0]["body"]
    assert step(folder, api, before="good.json", after="bad.json", fail_when_worse="false").returncode == 0
    assert len(api.comments) == 1


def test_a_token_that_may_not_comment_leaves_the_summary(folder: Path, api: Api) -> None:
    api.refused = 403
    done = step(folder, api, before="bad.json", after="good.json")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "::warning::no comment: the token may not write any (403)" in done.stdout
    assert "| better |" in (folder / "summary.md").read_text("utf-8")


def test_other_errors_of_the_api_and_files_that_do_not_fit_fail(folder: Path, api: Api) -> None:
    api.refused = 500
    assert step(folder, api, before="bad.json", after="good.json").returncode == 1
    api.refused = None
    other = score_file(folder / "other.json", GOOD, ["chrf:word-order=2"])
    done = step(folder, api, before="bad.json", after=other.name)
    assert done.returncode != 0
    assert "these scores cannot be compared" in done.stderr
    assert api.comments == []


def test_a_push_has_a_summary_and_no_comment(folder: Path, api: Api) -> None:
    done = step(folder, api, before="bad.json", after="good.json", event={"ref": "main"})
    assert done.returncode == 0, done.stdout + done.stderr
    assert api.calls == []
    assert "::notice::no comment: this is not a run of a pull request" in done.stdout


def test_replies_that_are_missing_fail_the_step_and_are_counted(folder: Path, api: Api) -> None:
    (line,) = re.findall(r"run: (refaug score .*)", (ACTION / "README.md").read_text("utf-8"))
    environment = {**os.environ, "PATH": f"{folder / 'bin'}:{os.environ['PATH']}"}
    for name, most in (("before", 24), ("after", 4)):
        items = [{"id": f"i{number}", "references": [gold]} for number, gold in enumerate(REFERENCES)]
        replies = [{"replies": {"model": reply}} for reply in GOOD[:most]] + [{}] * (24 - most)
        answered = [json.dumps({**item, **reply}) for item, reply in zip(items, replies, strict=True)]
        (folder / "answered.jsonl").write_text("\n".join(answered), "utf-8")
        subprocess.run(
            ["sh", "-ec", line.replace("after.json", f"{name}.json")], cwd=folder, env=environment, check=True
        )
    done = step(folder, api, before="before.json", after="after.json")
    assert done.returncode == 1
    assert done.stdout.endswith("::error::items that one file alone has a score for: chrf 20\n")
    assert "- chrf, model: 20 items have a score in one of the two alone, and are left out\n" in api.comments[0]["body"]
    assert step(folder, api, before="before.json", after="after.json", fail_when_worse="false").returncode == 0
