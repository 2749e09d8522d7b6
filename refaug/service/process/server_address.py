"""The address of the server that runs over a home, for commands that write links to it.

<home>/serving/server-PID.address    where it listens; a live file of its parent
"""

from __future__ import annotations

import os
from typing import Final

from refaug.core.errors import Usage
from refaug.core.files import make_folder
from refaug.core.home import Settings
from refaug.core.processes.live_file import LiveFile
from refaug.service.server_settings import ServeSettings

_FOLDER: Final = "serving"
_SUFFIX: Final = ".address"
_ANY: Final = {"0.0.0.0": "127.0.0.1", "::": "[::1]", "[::]": "[::1]"}  # noqa: S104  where to listen, not where to go


def published_address(home: Settings, address: str) -> LiveFile:
    """Write down where a server listens until the file is closed, or its process ends."""
    make_folder(home.home / _FOLDER)
    return LiveFile(home.home / _FOLDER / f"server-{os.getpid()}{_SUFFIX}", address.encode())


def server_url(home: Settings) -> str:
    """Return where the server of a home is reached from its machine; where none runs, where one would listen."""
    for content in LiveFile.read_all(home.home / _FOLDER, _SUFFIX):
        return _reachable(content.decode())
    settings = ServeSettings.from_env()
    host = f"[{settings.host}]" if ":" in settings.host else settings.host
    return _reachable(f"unix:{settings.uds}" if settings.uds else f"http://{host}:{settings.port}")


def _reachable(address: str) -> str:
    if address.startswith("unix:"):
        raise Usage(f"the server listens on {address}, which is in no link", remedy="name the address that people open")
    for host, reachable in _ANY.items():
        address = address.replace(f"http://{host}:", f"http://{reachable}:")
    return address
