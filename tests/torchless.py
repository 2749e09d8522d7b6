"""The service in a process of its own that has neither torch nor anything else that training needs."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from refaug.metrics.embeddings.recommended import MetricCalibration

ABSENT = ("torch", "safetensors", "gensim", "scipy", "krippendorff", "matplotlib")

_SERVICE = """
import json, sys, time
from pathlib import Path
home, requests, calibration, absent = json.load(sys.stdin)
sys.modules.update(dict.fromkeys(absent))
from starlette.testclient import TestClient
from refaug.core.home import Settings
from refaug.metrics.embeddings import recommended
from refaug.service.jobs.worker import run_worker
from refaug.service.server_settings import ServeSettings
from refaug.service.web.app import create_app
if calibration:
    recommended.own_calibration = lambda: recommended.MetricCalibration(**calibration)
settings, serve, answers = Settings(home=Path(home)), ServeSettings(allowed_hosts="testserver"), []
with TestClient(create_app(settings, serve)) as client:
    until = time.monotonic() + 120
    while client.get("/readyz").status_code != 200:
        assert time.monotonic() < until, client.get("/readyz").text
        time.sleep(0.01)
    for path, body in requests:
        answers.append(client.post(path, json=body).json())
        if path == "/v1/jobs":
            run_worker(settings, serve, once=True)
            answers[-1] = client.get(f"{path}/{answers[-1]['id']}").json()
json.dump(answers, sys.stdout)
"""


def answers_without_torch(
    home: Path, requests: Sequence[tuple[str, Mapping[str, Any]]], calibration: MetricCalibration | None = None
) -> list[Any]:
    """Return what the service answers to bodies posted to paths; jobs are done before the next one."""
    facts = ("encoder", "most_like", "drawn", "link", "sha256")  # the rest is as by default
    stated = None if calibration is None else {name: getattr(calibration, name) for name in facts}
    given = [str(home), requests, stated, ABSENT]
    started = [sys.executable, "-c", _SERVICE]
    done = subprocess.run(started, input=json.dumps(given), capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    answers: list[Any] = json.loads(done.stdout)
    return answers
