"""Name the record types of refaug that one request to `POST /v1/scores` makes between its body and its answer.

python checks/record_types.py            references that came with the item
python checks/record_types.py found      references that an index of the goldens' home finds and its rater weighs

A record is a dataclass, a named tuple or a model of pydantic whose class is defined in refaug. Each one that is made
while the second of two equal requests is answered counts, in whatever thread; what is made once for a process, or once
for a version of an index, was made by the first. Objects that only work, such as a queue's entry, are listed beside.
"""

from __future__ import annotations

import dataclasses
import gc
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http import HTTPStatus
from pathlib import Path
from types import CodeType, FrameType
from typing import Any, Final

from pydantic import BaseModel

_TESTS: Final = Path(__file__).resolve().parent.parent / "tests"
_ITEMS: Final = [
    {
        "id": "d1",
        "utterance": "Where do you buy tea?",
        "references": ["At the market.", {"text": "In a shop.", "weight": 0.5}, {"text": "Nowhere.", "weight": -0.5}],
        "replies": {"a": "In the shop next door.", "b": "I don't know."},
    },
    {
        "id": "d2",
        "utterance": "Who sells bread at noon?",
        "references": ["The mill does.", {"text": "The baker.", "weight": 0.75}],
        "replies": {"a": "The baker does.", "b": "At noon."},
    },
]
REQUESTS: Final[Mapping[str, Mapping[str, Any]]] = {
    "supplied": {"items": _ITEMS, "metrics": ["delta-bleu"]},
    "found": {"items": _ITEMS, "metrics": ["upsilon-bleu"], "index": "demo", "rater": "demo", "settings": {"k": 3}},
}


def is_record(kind: type[Any]) -> bool:
    """Whether instances of a class hold values under names."""
    return dataclasses.is_dataclass(kind) or _is_named_tuple(kind) or issubclass(kind, BaseModel)


def _is_named_tuple(kind: type[Any]) -> bool:
    return issubclass(kind, tuple) and hasattr(kind, "_fields")


def _is_ours(kind: type[Any]) -> bool:
    return str(kind.__module__).partition(".")[0] == "refaug"


class Made:
    """The classes of which instances are made while it watches, also in threads that start later."""

    def __init__(self) -> None:
        self.classes = set[type[Any]]()
        self._is_watching = False
        self._named_tuples = dict[CodeType, type[Any]]()
        threading.setprofile(self._look)
        sys.setprofile(self._look)

    @contextmanager
    def watching(self) -> Iterator[None]:
        """Watch, and be done with it afterwards."""
        kinds = [kind for kind in gc.get_objects() if isinstance(kind, type) and _is_ours(kind)]
        self._named_tuples = {kind.__new__.__code__: kind for kind in kinds if _is_named_tuple(kind)}
        self._is_watching = True
        try:
            yield
        finally:
            self._is_watching = False
            sys.setprofile(None)
            threading.setprofile(None)

    def _look(self, frame: FrameType, event: str, result: Any) -> None:
        """Note what a call makes; pydantic makes models without one: the first function that returns it tells."""
        if not self._is_watching:
            return
        code = frame.f_code
        if event == "call" and code.co_name == "__init__":
            self._note(type(frame.f_locals.get("self")))
        elif event == "call" and code in self._named_tuples:
            self._note(self._named_tuples[code])
        elif event == "return" and isinstance(result, BaseModel):
            self._note(type(result))

    def _note(self, kind: type[Any]) -> None:
        if _is_ours(kind):
            self.classes.add(kind)


def classes_made(body: Mapping[str, Any]) -> set[type[Any]]:
    """Return the classes of refaug of which a request for scores makes instances when it is sent again."""
    from fastapi.testclient import TestClient  # noqa: PLC0415

    sys.path.append(str(_TESTS))
    from goldens.golden_home import unpacked, web_app  # type: ignore[import-not-found]  # noqa: PLC0415

    made = Made()
    with unpacked() as folder, TestClient(web_app(folder / "home", job_worker=False)) as client:
        while client.get("/readyz").status_code != HTTPStatus.OK:
            time.sleep(0.05)
        client.post("/v1/scores", json=body).raise_for_status()
        changed = [{**item, "utterance": f"{item['utterance']} Tell me."} for item in body["items"]]  # not in the cache
        with made.watching():
            client.post("/v1/scores", json={**body, "items": changed}).raise_for_status()
    return made.classes


def main(arguments: list[str]) -> int:
    """Print the record types of one request, with their modules, and how many there are."""
    body = REQUESTS[arguments[0] if arguments else "supplied"]
    classes = sorted(classes_made(body), key=lambda kind: (kind.__module__, kind.__name__))
    records = [kind for kind in classes if is_record(kind)]
    for title, kinds in (("record types", records), ("objects", [kind for kind in classes if kind not in records])):
        sys.stdout.write(f"{len(kinds)} {title}\n")
        for kind in kinds:
            sys.stdout.write(f"    {kind.__module__}.{kind.__name__}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
