"""Extras of the installation: which one brings a package that is missing.

The wheel alone scores against golds and frozen sets. What needs more ends with MissingPart, which names the extra.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Final

from refaug.core.errors import MissingPart

# The modules of each extra, by the names under which they are imported; a test holds them to pyproject.toml.
MODULES_OF_EXTRAS: Final[Mapping[str, tuple[str, ...]]] = {
    "index": ("bm25s", "duckdb", "faiss", "pyarrow", "sentencepiece"),
    "meta": ("krippendorff", "scipy"),
    "rater": ("safetensors", "torch"),
    "train": ("gensim",),
    "encoders": ("onnxruntime", "tokenizers"),
    "ja": ("fugashi", "ipadic"),
    "judges": ("httpx2",),
    "workbooks": ("openpyxl",),
    "conversations": ("vaderSentiment",),
    "plots": ("PIL", "matplotlib"),
    "postgres": ("psycopg",),
    "cluster": ("ray",),
    "reproduction": (),
    "studies": (),
    "serve": (
        "alembic",
        "cronsim",
        "fastapi",
        "fastapi_offline",
        "httptools",
        "prometheus_client",
        "sqlalchemy",
        "sse_starlette",
        "starlette",
        "uvicorn",
        "uvloop",
    ),
}
_NOT_IN_ALL: Final = ("cluster",)
_EXTRA_OF: Final = {module: extra for extra, modules in MODULES_OF_EXTRAS.items() for module in modules}


def missing_part(error: ModuleNotFoundError) -> MissingPart | None:
    """Return the error that names the extra of a module; None where no extra has it."""
    module = (error.name or "").partition(".")[0]
    if (extra := _EXTRA_OF.get(module)) is None:
        return None
    everything = "" if extra in _NOT_IN_ALL else ", or 'refaug[all]' for everything"
    return MissingPart(
        f"this needs {module}, which is not installed", remedy=f"pip install 'refaug[{extra}]'{everything}"
    )


@contextmanager
def extras_named() -> Iterator[None]:
    """Raise MissingPart in place of an import error of a module that an extra has."""
    try:
        yield
    except ModuleNotFoundError as error:
        if (missing := missing_part(error)) is None:
            raise
        raise missing from error
