"""The child in which a metric of a package that states no cost reads texts: requests and answers are lines of JSON."""

from __future__ import annotations

import math
import os
import resource
import signal
import sys
from collections.abc import Mapping
from typing import Any

import numpy as np
import orjson

from refaug.core.errors import RefaugError
from refaug.metrics.base import Metric, References
from refaug.metrics.catalogue import find
from refaug.metrics.packages.watched_metrics import MEMORY_BYTES
from refaug.metrics.specification import build_of


def main() -> int:
    """Answer requests until there are no more; what the package prints goes where errors go."""
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    order = orjson.loads(sys.argv[1])
    metric = build_of(find(order["name"]), order["settings"])
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))
    answers.write(b"ready\n")
    answers.flush()
    for line in sys.stdin.buffer:
        signal.alarm(math.ceil(order["call_s"]) + 1)  # ends it where the server that would have done so is gone
        try:
            content = _answer(metric, orjson.loads(line))
        except RefaugError as error:  # refaug.metrics.packages.watched_metrics has named the package
            content = {"error": error.message, "remedy": error.remedy}
        answers.write(orjson.dumps(content, option=orjson.OPT_APPEND_NEWLINE | orjson.OPT_SERIALIZE_NUMPY))
        answers.flush()
        signal.alarm(0)
    return 0


def _answer(metric: Metric, request: Mapping[str, Any]) -> dict[str, Any]:
    references = [_references(one) for one in request["references"]]
    prepared = metric.prepare([one for one in references if one is not None])
    if "replies" not in request:
        problems = {str(at): {"code": one.code, "message": one.message} for at, one in prepared.problems.items()}
        return {"items": prepared.items, "problems": problems}
    places = (np.array(request[name], np.int64) for name in ("reply_places", "item_places"))
    rows = np.ascontiguousarray(metric.statistics(request["replies"], prepared, *places), np.float64)
    return {"rows": rows, "shape": rows.shape}


def _references(content: Mapping[str, Any] | None) -> References | None:
    if content is None:
        return None
    return References(
        tuple(content["texts"]),
        tuple(content["weights"]),
        content["gold"],
        content["utterance"],
        _references(content["beside"]),
    )


if __name__ == "__main__":
    sys.exit(main())
