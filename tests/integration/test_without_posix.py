"""Scores, agreement and frozen sets where a system has nothing of POSIX: modules are hidden from a process."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

HIDDEN = """
import os, signal, sys
sys.modules.update(dict.fromkeys("fcntl grp pty pwd readline resource syslog termios tty".split(), None))
names = "fchmod fchown fork forkpty getegid geteuid getuid killpg register_at_fork sched_getaffinity setsid statvfs"
for name in names.split():
    delattr(os, name)
for name in "SIGALRM SIGHUP SIGKILL SIGQUIT SIGUSR1".split():
    delattr(signal, name)
import refaug
from refaug.cli import main
print(refaug.score(predictions=["At the shop."], references=[["At the shop."]], metric="multi-bleu").corpus)
items, home = sys.argv[1:]
for words in (
    ["score", items, "--metric", "bleu", "--draws", "0"],
    ["agreement", items, "--metric", "bleu", "--draws", "10"],
    ["sets", "freeze", items, "--purpose", "test"],
):
    if main.main(["--home", home, *words]):
        sys.exit(" ".join(words))
"""


def test_scores_agreement_and_frozen_sets_need_nothing_of_posix(tmp_path: Path) -> None:
    items = tmp_path / "items.jsonl"
    replies = ["At the shop.", "No.", "In the shop there.", "Who knows?"]
    items.write_text(
        "".join(
            json.dumps(
                {"id": str(n), "references": ["At the shop."], "replies": {"m": text}, "ratings": {"m": [5 - n]}}
            )
            + "\n"
            for n, text in enumerate(replies)
        )
    )
    command = [sys.executable, "-c", HIDDEN, str(items), str(tmp_path / "home")]
    done = subprocess.run(command, capture_output=True, text=True, env=dict(os.environ), check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("1.0\n")
