"""Comment the comparison that `refaug compare --json` prints on the pull request of a workflow, with Python alone.

The comment is found again by a mark in it, and changed, so that a pull request has one. The table also becomes the
summary of the step. Where the token may not write comments, as in pull requests from forks, a warning says so.
"""

from __future__ import annotations

import json
import os
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

_PAGE = 100
_SIGNS = {"better": "better", "worse": "**worse**"}


def main() -> int:
    """Write the summary and the comment; 1 where a metric is worse or lacks replies, and that is to fail."""
    comparison: dict[str, Any] = json.load(sys.stdin)
    title = os.environ.get("TITLE") or "Replies before and after"
    text = "\n".join(_lines(comparison, title)) + "\n"
    sys.stdout.write(text)
    if summary := os.environ.get("GITHUB_STEP_SUMMARY"):
        with Path(summary).open("a", encoding="utf-8") as file:
            file.write(text)
    _comment(f"<!-- refaug: {title.replace('--', '- -')} -->\n{text}")
    pairs = comparison["comparisons"]
    failures = {
        "worse beyond chance": [pair["metric"] for pair in pairs if pair["verdict"] == "worse"],
        "items that one file alone has a score for": [
            f"{pair['metric']} {left_out:,}" for pair in pairs if (left_out := _left_out(pair))
        ],
    }
    if os.environ.get("FAIL_WHEN_WORSE", "true") == "false":
        return 0
    for what, metrics in failures.items():
        if metrics:
            sys.stdout.write(f"::error::{what}: {', '.join(metrics)}\n")
    return int(any(failures.values()))


def _left_out(pair: Mapping[str, Any]) -> int:
    return max(int(test["left_out"]) for test in pair["tests"])


def _lines(comparison: Mapping[str, Any], title: str) -> Iterator[str]:
    """Yield the lines of a page in Markdown: a row for each metric and system, then signatures and warnings."""
    yield f"### {title}"
    yield ""
    yield "| metric | system | before | after | difference | interval | p (Holm) | replies | |"
    yield "|---|---|---|---|---|---|---|---|---|"
    for pair in comparison["comparisons"]:
        test = next((test for test in pair["tests"] if test["p_randomisation"] is not None), pair["tests"][0])
        systems = list(dict.fromkeys((pair["first_system"], pair["second_system"])))
        interval = test["interval"] and f"[{test['interval'][0]:.4f}, {test['interval'][1]:.4f}]"
        cells = (
            f"{pair['metric']} ({test['level']})",
            " → ".join(systems),
            *(_number(test[name]) for name in ("first", "second")),
            _number(test["difference"], "+.4f"),
            interval or test["note"] or "",
            _number(test["holm_p"], ".3f"),
            f"{test['replies']:,}",
            _SIGNS.get(pair["verdict"], "no difference is shown"),
        )
        yield f"| {' | '.join(map(_cell, cells))} |"
    yield ""
    yield from (f"- {warning}" for warning in comparison["warnings"])
    yield from ("", "<details><summary>Signatures</summary>", "", "```")
    yield from dict.fromkeys(
        pair[name] for pair in comparison["comparisons"] for name in ("first_signature", "second_signature")
    )
    yield from ("```", "", "</details>")


def _number(number: float | None, form: str = ".4f") -> str:
    return "" if number is None else format(number, form)


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")


def _comment(body: str) -> None:
    event = json.loads(Path(os.environ["GITHUB_EVENT_PATH"]).read_text("utf-8"))
    number = (event.get("pull_request") or {}).get("number")
    if number is None:
        sys.stdout.write("::notice::no comment: this is not a run of a pull request\n")
        return
    repository = f"/repos/{os.environ['GITHUB_REPOSITORY']}/issues"
    mark = body.partition("\n")[0]
    try:
        present = next((one for one in _comments(f"{repository}/{number}/comments") if mark in one["body"]), None)
        if present is None:
            _call("POST", f"{repository}/{number}/comments", {"body": body})
        else:
            _call("PATCH", f"{repository}/comments/{present['id']}", {"body": body})
    except urllib.error.HTTPError as error:
        if error.code not in (401, 403):
            raise
        sys.stdout.write(
            f"::warning::no comment: the token may not write any ({error.code}); the job needs "
            "permissions: pull-requests: write\n"
        )


def _comments(path: str) -> Iterator[dict[str, Any]]:
    """Yield the comments of a pull request, page by page."""
    page = 1
    while True:
        comments = _call("GET", f"{path}?per_page={_PAGE}&page={page}")
        yield from comments
        if len(comments) < _PAGE:
            return
        page += 1


def _call(method: str, path: str, body: object = None) -> Any:
    """Call the API of the workflow's server, and return its answer."""
    request = urllib.request.Request(  # noqa: S310  the address is the workflow's
        os.environ.get("GITHUB_API_URL", "https://api.github.com") + path,
        None if body is None else json.dumps(body).encode(),
        {
            "Accept": "application/vnd.github+json",
            "Authorization": f"Bearer {os.environ['GITHUB_TOKEN']}",
            "Content-Type": "application/json",
            "User-Agent": "refaug",
            "X-GitHub-Api-Version": "2022-11-28",
        },
        method=method,
    )
    with urllib.request.urlopen(request, timeout=60) as answer:  # noqa: S310
        return json.load(answer)


if __name__ == "__main__":
    sys.exit(main())
