"""Count the code of each room, without blank lines, comments and docstrings.

python checks/code_lines.py refaug clients/python/src
python checks/code_lines.py --page docs/architecture.md [--check]
python checks/code_lines.py --equal

The second form writes the code lines of each room and extra into the page, in hundreds; with `--check` it fails where
one is more than a tenth away from the page's. The third counts the lines that serve what commit a066e4f could do, of
refaug and the client, and all lines of their tests: all but whole modules whose capability it did not have, and files
that test nothing else; what is new inside other files stays in.

A room is a folder that lies directly in the package of a named tree; the package's own modules are counted under its
name. Lines of imports are those of all import statements, also inside functions; their share is that of all lines.
"""

from __future__ import annotations

import ast
import io
import re
import sys
import tokenize
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

_RECORD: Final = "dict[str, Any]"
_LAYOUT: Final = frozenset(
    {
        tokenize.COMMENT,
        tokenize.NL,
        tokenize.NEWLINE,
        tokenize.INDENT,
        tokenize.DEDENT,
        tokenize.ENCODING,
        tokenize.ENDMARKER,
    }
)


@dataclass(frozen=True, kw_only=True)
class CodeLines:
    """How many files and lines there are; `untyped` are the lines that say `dict[str, Any]`."""

    files: int = 0
    lines: int = 0
    code: int = 0
    imports: int = 0
    untyped: int = 0

    def __add__(self, other: CodeLines) -> CodeLines:
        return CodeLines(
            files=self.files + other.files,
            lines=self.lines + other.lines,
            code=self.code + other.code,
            imports=self.imports + other.imports,
            untyped=self.untyped + other.untyped,
        )

    @classmethod
    def of(cls, source: str) -> CodeLines:
        """Return the counts of one module."""
        tree = ast.parse(source)
        code = _token_lines(source) - _docstring_lines(tree)
        imports = _lines_of(node for node in ast.walk(tree) if isinstance(node, (ast.Import, ast.ImportFrom)))
        texts = source.splitlines()
        untyped = sum(_RECORD in texts[line - 1] for line in code)
        return cls(files=1, lines=len(texts), code=len(code), imports=len(imports), untyped=untyped)


def _token_lines(source: str) -> set[int]:
    """Return the numbers of the lines on which something other than a comment stands."""
    tokens = tokenize.generate_tokens(io.StringIO(source).readline)
    spans = (range(token.start[0], token.end[0] + 1) for token in tokens if token.type not in _LAYOUT)
    return {line for span in spans for line in span}


def _docstring_lines(tree: ast.Module) -> set[int]:
    documented = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    owners = (node for node in ast.walk(tree) if isinstance(node, documented))
    return _lines_of(owner.body[0] for owner in owners if ast.get_docstring(owner, clean=False) is not None)


def _lines_of(statements: Iterable[ast.stmt]) -> set[int]:
    return {
        line
        for statement in statements
        for line in range(statement.lineno, (statement.end_lineno or statement.lineno) + 1)
    }


def count_rooms(tree: Path) -> dict[str, CodeLines]:
    """Return the counts of each room of a package, or of each package that lies in a folder, sorted by name."""
    package = tree if (tree / "__init__.py").is_file() else None
    packages = [package] if package else sorted(path.parent for path in tree.glob("*/__init__.py"))
    counts = defaultdict[str, CodeLines](CodeLines)
    for root in packages:
        for path in root.rglob("*.py"):
            folders = path.relative_to(root.parent).parts[:-1]
            counts["/".join(folders[:2])] += CodeLines.of(path.read_text("utf-8"))
    return dict(sorted(counts.items()))


def table(rooms: dict[str, CodeLines]) -> list[str]:
    """Return the counts as lines of a table, with their sum at its end."""
    rows = [*rooms.items(), ("all", sum(rooms.values(), CodeLines()))]
    width = max(len(name) for name, _ in rows)
    head = f"{'':{width}}  {'files':>6}{'lines':>9}{'code':>9}{'imports':>9}{'share':>8}{_RECORD:>16}"
    return [head] + [
        f"{name:{width}}  {room.files:>6,}{room.lines:>9,}{room.code:>9,}{room.imports:>9,}"
        f"{room.imports / max(room.lines, 1):>8.1%}{room.untyped:>16,}"
        for name, room in rows
    ]


_ROOT: Final = Path(__file__).resolve().parent.parent
_BLOCK: Final = re.compile(r"^```lines\n([^`]*)^```$", re.MULTILINE)


def hundreds() -> dict[str, int]:
    """Return the code lines of each room of refaug, each extra and the client, in hundreds."""
    rooms = count_rooms(_ROOT / "refaug") | count_rooms(_ROOT / "refaug/extras")
    client = sum(count_rooms(_ROOT / "clients/python/src").values(), CodeLines())
    names = {name: name.replace("/", ".") for name in rooms if "/" in name}
    names |= {name: f"refaug.{name.replace('/', '.')}" for name in names if name.startswith("extras/")}
    counts = {named: rooms[name].code for name, named in names.items() if named != "refaug.extras"}
    return {name: round(code / 100) * 100 for name, code in {**counts, "refaug_client": client.code}.items()}


def write_page(page: Path, *, checks: bool) -> int:
    """Write the counts into the page's block; with `checks` say where the page is more than a tenth away."""
    text, counts = page.read_text("utf-8"), hundreds()
    width = max(map(len, counts))
    if not checks:
        lines = "".join(f"{name:{width}}  {code:>7,}\n" for name, code in sorted(counts.items(), key=_by_size))
        page.write_text(_BLOCK.sub(f"```lines\n{lines}```", text), "utf-8")
        return 0
    told = {name: int(code.replace(",", "")) for name, code in map(str.split, _BLOCK.findall(text)[0].splitlines())}
    wrong = [
        name
        for name in {*told, *counts}
        if abs(told.get(name, 0) - (code := counts.get(name, 0))) > max(code / 10, 100)
    ]
    if wrong:
        print(f"{page} is not what is there of {', '.join(sorted(wrong))}: run make docs", file=sys.stderr)
    return 1 if wrong else 0


def _by_size(entry: tuple[str, int]) -> int:
    return -entry[1]


_BEFORE: Final = (
    121_365  # lines of bots cli core evaluation indexer library logs metrics rater service and the client then
)
_NEW: Final = (
    "agreement/costs.py",
    "agreement/rater_report/seeds.py",
    "agreement/reference_reliability.py",
    "agreement/report/leaderboard.py",
    "cli/everyday.py",
    "cli/indexes/encoders.py",
    "cli/scores/reference_sets.py",
    "core/artefacts/packaged_files.py",
    "core/artefacts/store/hub_files.py",
    "core/vectors/kept_vectors.py",
    "core/vectors/static_model.py",
    "extras/judges/commands/certify.py",
    "extras/judges/conversation_options.py",
    "extras/judges/head_teachers.py",
    "extras/judges/commands/estimate.py",
    "extras/judges/commands/panel.py",
    "extras/judges/follow_up_models.py",
    "extras/judges/metrics/followups.py",
    "extras/judges/metrics/panels.py",
    "extras/judges/panel_worth.py",
    "extras/judges/passports/*.py",
    "extras/reproduction/experiments/networks.py",
    "extras/reproduction/experiments/raters.py",
    "extras/reproduction/experiments/recommended.py",
    "extras/reproduction/networks/*.py",
    "extras/reproduction/recommended.py",
    "extras/studies/participation/signed_links.py",
    "library/everyday.py",
    "library/frozen_sets.py",
    "library/harnesses.py",
    "logs/everyday.py",
    "metrics/costs.py",
    "metrics/embeddings/recommended.py",
    "metrics/embeddings/reply_guards.py",
    "metrics/models/unreferenced.py",
    "metrics/packages/*.py",
    "metrics/statistics/clustered_figures.py",
    "metrics/statistics/label_maps.py",
    "metrics/statistics/prediction_powered.py",
    "rater/*/array_network.py",
    "rater/adem/pretraining/latent_report.py",
    "rater/adem/pretraining/targets.py",
    "rater/adem/teachers/*.py",
    "rater/adem/vhred/conversation.py",
    "rater/adem/vhred/conversation_sizes.py",
    "rater/adem/vhred/heads.py",
    "rater/adem/vhred/held_conversations.py",
    "rater/array_layers.py",
    "rater/cross/hidden_pieces.py",
    "rater/cross/masked.py",
    "rater/cross/noise.py",
    "rater/dual/*.py",
    "rater/frozen/*.py",
    "rater/training/calibration.py",
    "scoring/comparison/harness_comparison.py",
    "scoring/home/encoders.py",
    "scoring/home/network_parts.py",
    "scoring/home/teachers.py",
    "scoring/metric_setup/calibration.py",
    "scoring/metric_setup/constant_search.py",
    "scoring/score_files/harness_logs.py",
    "scoring/score_files/sample_records.py",
    "scoring/verification/harness_verification.py",
    "service/database/row_seals.py",
    "service/database/stored_cells.py",
    "service/traces.py",
    "service/web/scoring_limits.py",
    "tables/published_files.py",
    "tables/published_sets.py",
)


_TEST_LINES_BEFORE: Final = 123_344
_NEW_TESTS: Final = (
    "clients/action/tests/*.py",
    "clients/inspect/tests/*.py",
    "clients/lm_eval/tests/*.py",
    "clients/opentelemetry/tests/*.py",
    "clients/pytest/tests/*.py",
    "clients/python/tests/integrations/test_prediction_powered.py",
    "clients/python/tests/integrations/test_real_judge.py",
    "clients/verifiers/tests/*.py",
    "tests/clocks.py",
    "tests/drawn_requests.py",
    "tests/extras/cluster/integration/test_cluster_ports.py",
    "tests/extras/judges/integration/test_judge_*.py",
    "tests/extras/judges/integration/test_vhcr_commands.py",
    "tests/extras/judges/integration/test_rows_beside.py",
    "tests/extras/judges/unit/metrics/test_followups.py",
    "tests/extras/judges/unit/metrics/test_panels.py",
    "tests/extras/judges/unit/passports/*.py",
    "tests/extras/judges/unit/test_conversation_options.py",
    "tests/extras/reproduction/integration/test_reproduce_recommended.py",
    "tests/extras/reproduction/unit/experiments/test_networks.py",
    "tests/extras/reproduction/unit/test_bench_rater_people.py",
    "tests/extras/studies/integration/test_signed_links.py",
    "tests/extras/studies/integration/test_study_full_disk.py",
    "tests/extras/studies/integration/test_take_access.py",
    "tests/extras/studies/unit/test_row_seals.py",
    "tests/hubs.py",
    "tests/integration/attacks/test_proxies.py",
    "tests/integration/attacks/test_three_processes.py",
    "tests/integration/test_all_routes.py",
    "tests/integration/test_calibrated_encoder.py",
    "tests/integration/test_clock_jumps.py",
    "tests/integration/test_drawn_requests.py",
    "tests/integration/test_dual_rater.py",
    "tests/integration/test_encoders_of_a_hub.py",
    "tests/integration/test_everyday_home.py",
    "tests/integration/test_frozen_raters.py",
    "tests/integration/test_full_disk_acts.py",
    "tests/integration/test_full_disk_stages.py",
    "tests/integration/test_harness_logs.py",
    "tests/integration/test_leaderboard.py",
    "tests/integration/test_packaged_encoder.py",
    "tests/integration/test_packages.py",
    "tests/integration/test_read_only_home.py",
    "tests/integration/test_recommended_metric.py",
    "tests/integration/test_site.py",
    "tests/integration/test_store_hub.py",
    "tests/integration/test_upgrade_under_load.py",
    "tests/integration/test_visibility.py",
    "tests/integration/test_without_torch.py",
    "tests/llama_server.py",
    "tests/scripted_judges.py",
    "tests/torchless.py",
    "tests/unit/agreement/rater_report/test_seeds.py",
    "tests/unit/agreement/test_agreement_costs.py",
    "tests/unit/bots/test_conversation_bot.py",
    "tests/unit/agreement/test_reference_reliability.py",
    "tests/unit/core/artefacts/test_packaged_files.py",
    "tests/unit/core/installation/test_extras_away.py",
    "tests/unit/core/installation/test_registrations.py",
    "tests/unit/core/vectors/test_kept_vectors.py",
    "tests/unit/core/vectors/test_static_model.py",
    "tests/unit/library/test_frozen_sets.py",
    "tests/unit/logs/test_everyday.py",
    "tests/unit/metrics/embeddings/test_recommended.py",
    "tests/unit/metrics/embeddings/test_reply_guards.py",
    "tests/unit/metrics/statistics/test_clustered_figures.py",
    "tests/unit/metrics/statistics/test_prediction_powered.py",
    "tests/unit/metrics/test_costs.py",
    "tests/unit/metrics/test_signature_readers.py",
    "tests/unit/rater/adem/teachers/*.py",
    "tests/unit/rater/adem/test_targets.py",
    "tests/unit/rater/adem/test_vhcr.py",
    "tests/unit/rater/cross/test_masked.py",
    "tests/unit/rater/cross/test_noise.py",
    "tests/unit/rater/dual/*.py",
    "tests/unit/rater/frozen/*.py",
    "tests/unit/rater/test_array_networks.py",
    "tests/unit/scoring/home/test_teachers.py",
    "tests/unit/scoring/item_files/test_hostile_cells.py",
    "tests/unit/scoring/item_files/test_preview_limits.py",
    "tests/unit/service/database/test_damaged_database.py",
    "tests/unit/service/test_traces.py",
    "tests/unit/tables/test_published_sets.py",
    "tests/unit/tables/test_workbooks.py",
    "tests/vhcrs.py",
    "tests/without_extras.py",
)


def print_equal() -> int:
    """Print how many lines there are for what commit a066e4f could do, beside its lines."""
    folders = (_ROOT / "refaug", _ROOT / "clients/python/src")
    lines = sum((sum(count_rooms(folder).values(), CodeLines()) for folder in folders), CodeLines()).code
    modules = [path for pattern in _NEW for path in folders[0].glob(pattern)]
    new = sum(CodeLines.of(path.read_text("utf-8")).code for path in modules)
    print(f"{lines:,} lines, {new:,} of them in {len(modules)} modules of new capability: {lines - new:,} for what")
    print(f"a066e4f did with {_BEFORE:,}, {(lines - new) / _BEFORE - 1:+.1%}")
    places = (_ROOT / "tests", *(_ROOT / "clients").glob("*/tests"))
    tests = {path: len(path.read_text("utf-8").splitlines()) for place in places for path in place.rglob("*.py")}
    new = sum(tests[path] for path in tests if any(path.match(str(_ROOT / pattern)) for pattern in _NEW_TESTS))
    equal = sum(tests.values()) - new
    print(f"{sum(tests.values()):,} lines of tests, {new:,} of them of new capability: {equal:,} for what")
    print(f"a066e4f did with {_TEST_LINES_BEFORE:,}, {equal / _TEST_LINES_BEFORE - 1:+.1%}")
    return 0


def main(trees: list[str]) -> int:
    """Print the counts of the trees; 2 where none is named or one has no package."""
    if trees[:1] == ["--page"] and len(trees) > 1:
        return write_page(Path(trees[1]), checks="--check" in trees)
    if trees == ["--equal"]:
        return print_equal()
    rooms: dict[str, CodeLines] = {}
    for tree in trees:
        counts = count_rooms(Path(tree))
        if not counts:
            print(f"{tree} holds no package: name folders such as refaug or clients/python/src", file=sys.stderr)
            return 2
        rooms |= counts
    if not rooms:
        print(__doc__, file=sys.stderr)
        return 2
    print("\n".join(table(rooms)))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
