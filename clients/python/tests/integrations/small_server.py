"""A real server in the environment of the server, for tests in another one: says in one line of JSON where it answers,
its frozen sets and their items, and ends when its standard input does.
"""

from __future__ import annotations

import json
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[4]
sys.path[:1] = [str(ROOT / "clients" / "python" / "tests"), str(ROOT), str(ROOT / "tests")]

from conftest import frozen  # noqa: E402
from known_items import ITEMS  # noqa: E402
from servers import served  # noqa: E402
from serving import small_home  # noqa: E402

if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder, served(small_home(Path(folder)).home) as server:
        url = str(server.client.base_url).rstrip("/")
        sets = {purpose: frozen(url, purpose) for purpose in ("train", "validation", "test")}
        sys.stdout.write(json.dumps({"url": url, "sets": sets, "items": ITEMS}) + "\n")
        sys.stdout.flush()
        sys.stdin.read()
