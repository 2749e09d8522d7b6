"""Every rule of `checks/house.py` fails on a small example and passes on a good one."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).parents[3]


def _load() -> ModuleType:
    """Import the script, which is in no package."""
    spec = importlib.util.spec_from_file_location("house", ROOT / "checks" / "house.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["house"] = module
    spec.loader.exec_module(module)
    return module


house = _load()
BODY = "\n".join(f"    line_{number} = {number}" for number in range(60)) + "\n"
METHODS = "".join(f"    def method_{number}(self):\n        return {number}\n" for number in range(151))
BAD = {
    "a variable": ("name", "result = 1\n"),
    "a parameter": ("name", "def count(data): ...\n"),
    "a loop": ("name", "for item in ():\n    pass\n"),
    "a caught error": ("name", "try:\n    pass\nexcept ValueError as told:\n    pass\n"),
    "a comprehension of several lines": ("name", "rows = [\n    one\n    for one in ()\n]\n"),
    "a module": ("sentence", '"""What is told to whoever asks."""\n'),
    "a function": ("sentence", 'def count():\n    """Return the count that nobody needs."""\n'),
    "a class": ("sentence", 'class Count:\n    """A count with a life of its own."""\n'),
    "a class twice": ("class name", "class Count: ...\nclass Count: ...\n"),
    "an import": ("private import", "from os import _exit\n"),
    "a long function": ("function size", f"def count():\n{BODY}"),
    "a long class": ("class size", f"class Count:\n{METHODS}"),
    "a long file": ("file size", "# a line\n" * 621),
}
GOOD = {
    "nouns": "def count(rows):\n    row_count = len(rows)\n    return row_count\n",
    "a comprehension of one line": "rows = [one for one in ()]\n",
    "a field": "class Cell:\n    value: int = 0\n",
    "an attribute": "cell.value = 1\n",
    "a public import": "from __future__ import annotations\nfrom os import path\n",
    "plain sentences": '"""The count of rows."""\n\ndef count():\n    """Return the count."""\n',
    "the help of a command": 'def drop_command():\n    """Drop one that was made."""\n',
    "the description of a route": '@router.get("/rows")\nasync def rows():\n    """What is known of rows."""\n',
    "the title of an error": 'class Gone(Exception):\n    """Nobody may use it."""\n\n    code, status = "gone", 410\n',
    "a docstring of any length": 'def count():\n    """Return.\n' + "\n    text" * 60 + '\n    """\n',
}


def findings_of(folder: Path, source: str) -> list[str]:
    (folder / "example.py").write_text(source)
    return [finding.rule.value for finding in house.check([folder]).findings]


@pytest.mark.parametrize(("rule", "source"), BAD.values(), ids=BAD)
def test_an_example_breaks_only_its_rule(tmp_path: Path, rule: str, source: str) -> None:
    assert set(findings_of(tmp_path, source)) == {rule}


@pytest.mark.parametrize("source", GOOD.values(), ids=GOOD)
def test_a_good_example_breaks_no_rule(tmp_path: Path, source: str) -> None:
    assert findings_of(tmp_path, source) == []


def test_a_folder_has_at_most_twelve_modules_beside_its_init(tmp_path: Path) -> None:
    for number in range(12):
        (tmp_path / f"module_{number}.py").touch()
    (tmp_path / "__init__.py").touch()
    assert house.check([tmp_path]).findings == []
    (tmp_path / "one_more.py").touch()
    assert [finding.rule.value for finding in house.check([tmp_path]).findings] == ["folder size"]


def test_class_names_are_compared_over_all_folders_of_a_call(tmp_path: Path) -> None:
    for name in ("first", "second"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "module.py").write_text("class Count: ...\n")
    [finding] = house.check([tmp_path / "first", tmp_path / "second"]).findings
    assert str(finding) == f"{tmp_path}/second/module.py:1: class `Count` stands also in {tmp_path}/first/module.py:1"
    assert house.check([tmp_path / "second"]).findings == []


def test_the_exit_code_says_whether_a_figure_is_above_its_limit(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "good.py").write_text("# a line\n" * 400 + "row = 1\n")
    assert house.main([str(tmp_path)]) == 0
    (tmp_path / "bad.py").write_text("from os import _exit\n")
    assert house.main([str(tmp_path)]) == 1
    shown = capsys.readouterr().out
    assert f"{tmp_path}/bad.py:1: `_exit` is private to its module" in shown
    assert "    1.00  (limit 0)  private imports across modules" in shown
    house.main([str(tmp_path), "--figures"])
    assert "bad.py" not in capsys.readouterr().out


def test_a_few_vague_names_are_below_the_limit(tmp_path: Path) -> None:
    (tmp_path / "module.py").write_text("# a line\n" * 499 + "item = 1\n")
    assert house.main([str(tmp_path)]) == 0
    (tmp_path / "module.py").write_text("# a line\n" * 398 + "item = 1\nvalue = 2\n")
    assert house.main([str(tmp_path)]) == 1
