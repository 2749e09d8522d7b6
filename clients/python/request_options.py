"""Write the settings of requests as types of the client: `python clients/python/request_options.py [--check]`."""

from __future__ import annotations

import json
import sys
import textwrap
from pathlib import Path
from typing import Any, Final

from refaug.core.options.describing import OptionField, options_of
from refaug.core.options.kinds import BoolKind, ChoiceKind, Kind, ListKind, MomentKind, NumberKind, TextKind, UnionKind
from refaug.scoring.settings import AugmentSettings

TO: Final = Path(__file__).parent / "src/refaug_client/_api/retrieval.py"
_PLAIN: Final = {MomentKind: "Union[str, datetime]", BoolKind: "bool", TextKind: "str"}
_WIDEST: Final = 120  # characters of a line, as the formatter has it
_HEAD: Final = '''"""The settings of references; written by request_options.py."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Literal, TypedDict, Union


class Retrieval(TypedDict, total=False):
    """How references are found, rated and weighed: the `settings` of requests."""

'''


def type_of(kind: Kind[Any]) -> str:
    """Return the annotation of a kind of values, for Python 3.9."""
    if isinstance(kind, UnionKind):
        parts = [type_of(part) for part in kind.kinds]
        return parts[0] if len(parts) == 1 else f"Union[{', '.join(parts)}]"
    if isinstance(kind, ChoiceKind):
        return f"Literal[{', '.join(json.dumps(spelling) for spelling in kind.spellings)}]"
    if isinstance(kind, ListKind):
        return f"Sequence[{type_of(kind.element)}]"
    if isinstance(kind, NumberKind):
        return "int" if kind.is_whole else "float"
    for plain, name in _PLAIN.items():
        if isinstance(kind, plain):
            return name
    raise TypeError(f"no type of the client stands for {kind!r}")


def field_of(option: OptionField) -> str:
    """Return the lines of an option."""
    words = textwrap.wrap(option.doc, width=113, break_long_words=False)
    annotated = f"    {option.spelling}: {type_of(option.kind)}"
    if len(annotated) > _WIDEST:
        begin, _, choices = annotated.removesuffix("]").partition("[")
        annotated = f"{begin}[\n        {choices}\n    ]"
    return "".join(f"    # {line}\n" for line in words) + f"{annotated}\n"


def retrieval() -> str:
    """Return the whole module."""
    return _HEAD + "".join(field_of(option) for option in options_of(AugmentSettings))


def main(arguments: list[str]) -> int:
    """Write the module, or check that it is current."""
    if arguments != ["--check"]:
        TO.write_text(retrieval(), encoding="utf-8")
        return 0
    if TO.read_text(encoding="utf-8") == retrieval():
        return 0
    sys.stderr.write(f"{TO} is not what the options say: python clients/python/request_options.py\n")
    return 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
