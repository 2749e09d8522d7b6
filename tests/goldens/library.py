"""The calls of `import refaug`: expressions over the golden home."""

from __future__ import annotations

from typing import Any

from goldens.golden_home import unpacked
from goldens.normal import Normaliser
from goldens.services import items_of, plain
from goldens.tables import table


def library_answers(name: str) -> dict[str, Any]:
    """Evaluate the expressions of a table."""
    import refaug  # noqa: PLC0415
    from refaug.core.errors import RefaugError  # noqa: PLC0415
    from refaug.library import engine, inputs  # noqa: PLC0415
    from refaug.library.hugging_face import dataset_items  # noqa: PLC0415
    from refaug.library.nlgeval import evaluator  # noqa: PLC0415

    names = {"refaug": refaug, "engine": engine, "inputs": inputs, "items": items_of, "nlgeval": evaluator}
    names["hugging_face"] = dataset_items
    answers: dict[str, Any] = {}
    with unpacked() as folder:
        normal = Normaliser(folder)
        assert normal.known
        for call, spelling in table("library", name):
            try:
                outcome: Any = eval(spelling, dict(names))
                if hasattr(outcome, "__next__"):
                    outcome = list(outcome)
            except RefaugError as error:
                outcome = {"code": error.code}
            answers[call] = normal(plain(outcome))
    return answers
