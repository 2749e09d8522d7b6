"""A plugin of pytest that hides from the client what only POSIX systems have: its tests then run as on Windows.

    python -m pytest -p without_posix tests/test_….py

The service that the tests start still sees all of it: only the modules of `refaug_client` do not.
"""

from __future__ import annotations

import importlib
import os
import pkgutil
import signal
import socket
import sys
from types import ModuleType
from typing import Any

HIDDEN_MODULES = ("fcntl", "grp", "pty", "pwd", "readline", "resource", "syslog", "termios", "tty")
HIDDEN_NAMES: dict[str, tuple[str, ...]] = {
    "os": (
        "fchmod",
        "fchown",
        "fork",
        "forkpty",
        "geteuid",
        "getuid",
        "killpg",
        "register_at_fork",
        "setsid",
        "statvfs",
    ),
    "signal": ("SIGALRM", "SIGHUP", "SIGKILL", "SIGQUIT", "SIGUSR1", "alarm", "setitimer"),
    "socket": ("AF_UNIX",),
}


class _WithoutPosix(ModuleType):
    """A module of the standard library as it is on other systems."""

    def __init__(self, module: ModuleType, hidden: tuple[str, ...]) -> None:
        super().__init__(module.__name__)
        self._module, self._hidden = module, hidden

    def __getattr__(self, name: str) -> Any:
        if name in self._hidden:
            raise AttributeError(f"module {self.__name__!r} has no attribute {name!r}")
        return getattr(self._module, name)


def pytest_configure() -> None:
    """Import the client without them, and leave it without them; everything else gets them back."""
    modules = {module.__name__: module for module in (os, signal, socket)}
    removed = {name: sys.modules.pop(name, None) for name in HIDDEN_MODULES}
    attributes = [
        (modules[name], key, vars(modules[name]).pop(key, None)) for name, keys in HIDDEN_NAMES.items() for key in keys
    ]
    sys.modules.update(dict.fromkeys(HIDDEN_MODULES, None))  # type: ignore[arg-type]  an import of None fails
    try:
        client = importlib.import_module("refaug_client")
        for module in pkgutil.walk_packages(client.__path__, "refaug_client."):
            if ".integrations" not in module.name and not module.name.endswith("__main__"):
                importlib.import_module(module.name)
    finally:
        for name, module in removed.items():
            del sys.modules[name]
            if module is not None:
                sys.modules[name] = module
        for module, key, attribute in attributes:
            if attribute is not None:
                setattr(module, key, attribute)
    for name, module in list(sys.modules.items()):
        if name.partition(".")[0] == "refaug_client":
            for key in HIDDEN_NAMES.keys() & vars(module).keys():
                setattr(module, key, _WithoutPosix(modules[key], HIDDEN_NAMES[key]))
