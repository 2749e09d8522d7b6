"""The command line: one file per noun, each flags → dataclass → one call.

The main names:

- `start`: where `refaug` begins
- `main.main`: runs the command that the arguments name
- `commands.COMMANDS`: the function of each command, imported when it is needed
- `command_tree.command_at`: a command as typer runs it.
"""

from __future__ import annotations

import os
import sys

__all__ = ["scores", "shared", "start"]

_INTERRUPTED = 5  # refaug.core.errors.Interrupted, which is not there yet


def start() -> int:
    """Run the command; Ctrl-C while its libraries load has the same effect as later."""
    sys.stdin = sys.stdin or open(os.devnull, encoding="utf-8")  # noqa: PTH123, SIM115  closed before the start (<&-)
    sys.stderr = sys.stderr or open(os.devnull, "w", encoding="utf-8")  # noqa: PTH123, SIM115  likewise (2>&-)
    try:
        if sys.argv[1:] == ["--version"]:  # scripts ask often: none of the libraries is needed for it
            from refaug.core.version import VERSION  # noqa: PLC0415

            print(f"refaug {VERSION}")
            return 0
        from refaug.core.memory import collect_rarely  # noqa: PLC0415
        from refaug.core.processes.import_path import leave_user_folders  # noqa: PLC0415

        collect_rarely()
        leave_user_folders(sys.path, os.environ)
        from refaug.cli.main import main  # noqa: PLC0415
    except KeyboardInterrupt:
        print("error [interrupted]: interrupted", file=sys.stderr)
        return _INTERRUPTED
    return main()
