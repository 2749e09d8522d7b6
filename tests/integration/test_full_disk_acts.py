"""Keys, publications and the audit log of a server whose disk is full but for ever more room, one server for all."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx2
import pytest
from disks import fill, refused_until_it_fits, small_disk
from engines import home_with_versions
from servers import Served, served
from serving import migrated

from refaug.core.home import Settings
from refaug.service.audit import AuditLog
from refaug.service.database.database import Database
from refaug.service.keys import KeyStore
from refaug.service.scopes import Scope

pytestmark = [pytest.mark.machine, pytest.mark.slow, pytest.mark.faults]

_ROOM = 8 << 20


@dataclass(frozen=True)
class FullService:
    """A running server with its disk."""

    service: Served
    disk: Path

    def refused(self, method: str, path: str, **given: Any) -> tuple[httpx2.Response, list[str]]:
        """The answer to a request as soon as there is room for it, and the codes of the refusals before."""
        return refused_until_it_fits(self.disk, lambda: self.service.client.request(method, path, **given))

    def get(self, path: str) -> Any:
        """The content of an answer, which has to be a good one."""
        answer = self.service.client.get(path)
        assert answer.status_code == 200, answer.text
        return answer.json()

    def make_room(self) -> None:
        """Give all room back."""
        (self.disk / "filler").unlink(missing_ok=True)

    def acts(self) -> list[tuple[str, str]]:
        """The rows of the audit log, none of which is altered or missing."""
        database = Database.open(Settings(home=self.disk))
        try:
            log = AuditLog(database)
            rows = list(log.entries())
            assert log.verify() == len(rows)
        finally:
            database.close()
        return [(row.action, row.subject) for row in rows]


@pytest.fixture(scope="module")
def full(tmp_path_factory: pytest.TempPathFactory) -> Iterator[FullService]:
    made = migrated(home_with_versions(tmp_path_factory.mktemp("full"), indexes=1, raters=3)).home
    size = sum(path.stat().st_size for path in made.rglob("*") if path.is_file())
    with small_disk(f"size={size + _ROOM}") as disk:
        shutil.copytree(made, disk, dirs_exist_ok=True)
        database = Database.open(Settings(home=disk))
        token, _ = KeyStore(database).create("admin", [Scope.ADMIN])
        database.close()
        with served(disk, "--keys", "--publish-wait-s", "1") as service:
            service.client.headers["Authorization"] = f"Bearer {token}"
            yield FullService(service, disk)
            logged = (disk.parent / f"{disk.name}.log").read_text()
            assert "Traceback" not in logged


def test_a_key_is_made_and_revoked_whole_or_not_at_all(full: FullService) -> None:
    made, refusals = full.refused("POST", "/v1/keys", json={"name": "ann", "scopes": ["read"]})
    assert (made.status_code, set(refusals)) == (201, {"storage_full"}), refusals
    assert [key["name"] for key in full.get("/v1/keys")["keys"]] == ["admin", "ann"]
    header = {"Authorization": f"Bearer {made.json()['token']}"}
    assert full.service.client.get("/v1/key", headers=header).json()["name"] == "ann"
    revoked, refusals = full.refused("DELETE", f"/v1/keys/{made.json()['id']}")
    assert (revoked.status_code, set(refusals)) == (200, {"storage_full"}), refusals
    assert full.service.client.get("/v1/key", headers=header).status_code == 401
    assert full.acts()[-2:] == [("create", "key ann"), ("revoke", "key ann")]
    full.make_room()
    again = full.service.client.post("/v1/keys", json={"name": "bob", "scopes": ["read"]})
    assert (again.status_code, full.acts()[-1]) == (201, ("create", "key bob"))


def test_a_version_is_published_or_the_one_before_serves_on(full: FullService) -> None:
    first, second, third = full.get("/v1/artefacts/rater/base")["versions"]
    address = "/v1/artefacts/rater/base/current"
    for version, before in ((second, first), (third, second)):
        fill(full.disk)
        assert full.service.client.put(address, json={"version": version}).json()["code"] == "storage_full"
        assert full.get("/v1/artefacts/rater/base")["current"] == before
        published, refusals = full.refused("PUT", address, json={"version": version})
        assert (published.status_code in (200, 202), set(refusals)) == (True, {"storage_full"}), refusals
        assert full.get("/v1/artefacts/rater/base")["current"] == version
        full.make_room()
        act = ("publish", f"rater base@{version}")
        full.service.until(lambda act=act: act in full.acts(), "the row that had no room")
    rolled_back = full.service.client.put(address, json={"rollback": True})
    assert (rolled_back.status_code, rolled_back.json()["lacking"]) == (200, [])
    assert full.acts()[-1] == ("rollback", f"rater base@{second}")
