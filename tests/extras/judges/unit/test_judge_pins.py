"""What fitted judges were fitted with stays, and the commands say which judge needs it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from engines import home_with_versions
from extras.judges.integration.test_judge_fit_command import rated_items
from refusals import refusing

from refaug.cli.main import main
from refaug.core.artefacts.kinds import artefact_stores
from refaug.core.artefacts.manifests import describe_files
from refaug.core.errors import Conflict
from refaug.core.files import write_json
from refaug.core.home import Settings
from refaug.scoring.home.stored_artefacts import stored_artefacts, versions_for_judges


def add(settings: Settings, kind: str, name: str, folder: Path, **fields: Any) -> str:
    """Add and publish a version of one file with these fields in its manifest; return its name."""
    folder.mkdir(parents=True)
    (folder / "content").write_text(str(folder))
    write_json(folder / "manifest.json", {**fields, "files": describe_files(folder, ["content"])})
    stored = artefact_stores(settings)[kind]
    version = stored.add(name, folder)
    stored.publish(name, version)
    return version


METRICS = {
    "rater": "ruber:unreferenced=rater;model={},referenced=chrf",
    "ruber": "ruber:model={},referenced=chrf",
    "adem": "adem:model={}",
    "index": "ruber:model=any@1,sample={}",
    "vhred": "likelihood:model={}",
    "vectors": "upsilon-greedy:vectors={}",
}


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return Settings(home=tmp_path / "home")


@pytest.mark.parametrize("kind", METRICS)
def test_what_a_judge_names_stays_and_is_not_removed(settings: Settings, tmp_path: Path, kind: str) -> None:
    old, middle, new = (
        add(settings, kind, "chat", tmp_path / f"v{number}", sha256=f"{number}" * 64, id=f"{number}" * 64)
        for number in range(3)
    )
    judge = {"metrics": ["chrf", METRICS[kind].format(f"chat@{middle}#111111111111")]}
    versions = [add(settings, "judge-fit", "even", tmp_path / f"j{number}", **judge) for number in range(2)]
    needed = {middle: [f"even@{version}" for version in versions]}
    assert versions_for_judges(settings, kind, "chat") == needed
    assert versions_for_judges(settings, kind, "other") == {}
    stored = stored_artefacts(settings, kind)
    assert stored.gc("chat", 0).as_json() == {"removed": [old], "pinned": {}, "needed_by_judges": needed}
    with refusing(Conflict, versions[0], kind, middle) as refused:
        stored.remove("chat")
    assert "--yes" in refused.value.remedy
    stored_artefacts(settings, "judge-fit").remove("even")
    assert stored.gc("chat", 0).as_json() == {"removed": [middle], "pinned": {}, "needed_by_judges": {}}
    assert stored.remove("chat") == [new]


@pytest.mark.parametrize("content", [{}, {"metrics": None}, {"metrics": [3]}, {"metrics": 3}])
def test_a_damaged_judge_needs_nothing(settings: Settings, tmp_path: Path, content: dict[str, Any]) -> None:
    add(settings, "rater", "chat", tmp_path / "rater")
    add(settings, "judge-fit", "even", tmp_path / "judge", **content)
    for kind in METRICS:
        assert versions_for_judges(settings, kind, "chat") == {}


def test_commands_keep_the_rater_of_a_judge_until_the_judge_goes(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    settings = home_with_versions(tmp_path, indexes=1, raters=2)
    items = rated_items(tmp_path / "rated.jsonl", 1)
    stored = artefact_stores(settings)["rater"]
    (name,) = stored.names()
    oldest, newest = stored.versions(name)

    def run(*arguments: object) -> str:
        code = main(["--home", str(settings.home), *map(str, arguments)])
        printed = capsys.readouterr()
        return printed.out if code == 0 else f"{code}: {printed.err}"

    metrics = ("-m", "chrf", "-m", "rater:target=reply", "--rater", f"{name}@{oldest}")
    fit = ("train", "judge-fit", items, "--name", "even", "--method", "equal", "--length", "held", *metrics, "--json")
    judge = json.loads(run(*fit))["version"]
    run("artefacts", "publish", "rater", f"{name}@{newest}")
    stays = f"rater {name}: 0 versions removed\n  {oldest} stays for the fitted judge even@{judge}\n"
    assert run("artefacts", "gc", "rater", name, "--keep", "0") == stays
    assert run("artefacts", "gc", "rater", name, "--keep", "0", "--even-pinned") == stays
    assert stored.versions(name) == [oldest, newest]
    with refusing(Conflict, judge, name, oldest):
        stored_artefacts(settings, "rater").remove(name)
    [listed] = json.loads(run("artefacts", "list", "judge-fit", "--json"))["versions"]
    assert (listed["name"], listed["version"], listed["published"]) == ("even", judge, True)
    assert listed["metrics"][0] == "chrf"
    assert listed["metrics"][1].startswith(f"rater:model={name}@{oldest}#")
    assert "say --yes" in run("artefacts", "remove", "judge-fit", "even")
    assert run("artefacts", "gc", "judge-fit", "even") == "judge-fit even: 0 versions removed\n"
    assert run("artefacts", "remove", "judge-fit", "even", "--yes") == "judge-fit even removed: 1 version\n"
    assert run("artefacts", "gc", "rater", name, "--keep", "0") == f"rater {name}: 1 version removed: {oldest}\n"


def test_a_judge_goes_back_to_the_version_before(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    items = rated_items(tmp_path / "rated.jsonl", 1)
    home = ["--home", str(tmp_path / "home")]
    for method in ("equal", "ridge"):
        fit = ["train", "judge-fit", str(items), "--name", "mine", "--method", method, "-m", "bleu", "-m", "chrf"]
        assert main([*home, *fit]) == 0
    older, newer = artefact_stores(Settings(home=tmp_path / "home"))["judge-fit"].versions("mine")
    capsys.readouterr()
    assert main([*home, "artefacts", "rollback", "judge-fit", "mine"]) == 0
    assert capsys.readouterr().out == f"judge-fit mine@{older} is published\n"
    assert main([*home, "artefacts", "publish", "judge-fit", f"mine@{newer}"]) == 0
    assert main([*home, "artefacts", "gc", "judge-fit", "mine", "--keep", "0"]) == 0
    assert capsys.readouterr().out.endswith(f"judge-fit mine: 1 version removed: {older}\n")
