"""Count how often each option of an operation is declared: `python checks/declarations.py`.

The dataclass of the operation is one declaration. Flags, orders and bodies are made of it; a keyword that a function of
`import refaug` or a method of the client spells out is one more, and so is a field that a body declares by itself.
"""

from __future__ import annotations

import inspect
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

import refaug_client

import refaug
from refaug.core.options.describing import options_of
from refaug.operations.catalogue import find_operation, operation_names
from refaug.scoring.settings import AugmentSettings
from refaug.service.option_groups import OptionsBody
from refaug.service.web import app  # noqa: F401  whose routes have the bodies

SETTINGS: Final = "settings of references"
KEYWORDS: Final[Mapping[str, tuple[Callable[..., Any], ...]]] = {
    "score": (refaug.score, refaug_client.Client.score),
    "meta": (refaug.meta,),
    "references": (refaug.references, refaug_client.Client.references),
    "rate": (refaug.rate, refaug_client.Client.rate),
}


def declarations() -> dict[str, Counter[str]]:
    """Return for each operation how often each of its options is declared."""
    counts = {name: _declared(find_operation(name), name) for name in operation_names()}
    return {SETTINGS: _declared(AugmentSettings, SETTINGS), **counts}


def _declared(kind: type[Any], name: str) -> Counter[str]:
    count = Counter(option.spelling for option in options_of(kind))
    keywords = [parameter for face in KEYWORDS.get(name, ()) for parameter in inspect.signature(face).parameters]
    fields = [
        field
        for body in _bodies()
        if issubclass(kind, body.options_kind)
        for field in vars(body).get("__annotations__", ())
    ]
    count.update(spelled for spelled in (*keywords, *fields) if spelled in count)
    return count


def _bodies(kind: type[Any] = OptionsBody) -> Iterator[type[Any]]:
    """Yield the models of bodies that are made of options, those that add fields to one."""
    for body in kind.__subclasses__():
        if "options_kind" in vars(body):  # the model with the fields of the options alone
            yield from body.__subclasses__()
        yield from _bodies(body)


def main() -> int:
    """Print the number of options by how often they are declared, and those that are declared more than once."""
    counts = declarations()
    numbers = Counter(number for count in counts.values() for number in count.values())
    for number, options in sorted(numbers.items()):
        sys.stdout.write(f"{options:6,}  options with {number} declaration{'s' * (number > 1)}\n")
    for name, count in counts.items():
        if more := [f"{option} {number}" for option, number in count.items() if number > 1]:
            sys.stdout.write(f"{name}: {', '.join(more)}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
