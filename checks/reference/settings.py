"""docs/reference/settings.md, from the settings themselves."""

from __future__ import annotations

from dataclasses import Field, fields
from typing import Any, Final

from refaug.cli.server.serve import default_text
from refaug.core.home import CLUSTER_VARIABLES, STORE_VARIABLES, VARIABLES
from refaug.service.server_settings import ServeSettings, setting_types, variable_of

# A group begins at the named field and ends before the field of the next group.
_GROUPS: Final = {
    "host": "Where a server listens",
    "default_index": "What it serves",
    "items": "How much it takes",
    "timeout_s": "How long it takes",
}
_HEAD: Final = """# Settings

Generated from the settings by `make docs`; `make check` and a test compare it with them.

| variable | what it does | default |
|---|---|---|
{home}

`refaug --home FOLDER COMMAND` overrules the first for one command; it stands before the command. An empty variable \
counts as not set. `refaug admin doctor` shows which folder is in use.

## The store

What [`refaug artefacts push`](../beyond-one-machine.md) reads; `--store LOCATION` overrules the first.

| variable | what it does | default |
|---|---|---|
{stores}

## The machines of a cluster

What the processes of shards read, from the environment of `ray start` \
([Serving from a cluster](../beyond-one-machine.md#serving-from-a-cluster)).

| variable | what it does | default |
|---|---|---|
{machines}

## The server

Everything else in the environment is for `refaug serve`, and each variable is an option of it, too; the option goes \
first. `refaug serve --check` prints what would be used, and from where. Yes and no may be written `yes`/`no`, \
`true`/`false`, `on`/`off` or `1`/`0`.
The processes of a server get all of them from the one that was started, and besides, unless they are set already, \
`OMP_NUM_THREADS` and its like (the cores, divided by the number of web processes; one for numpy's) and, \
where nothing may be written beside the code, `NUMBA_CACHE_DIR`.

Commands and `import refaug` let the threads of numeric libraries wait asleep (`OMP_WAIT_POLICY`, `GOMP_SPINCOUNT`, \
`KMP_BLOCKTIME`, `OPENBLAS_THREAD_TIMEOUT`), unless `OMP_WAIT_POLICY` is set: threads that wait awake take the \
cores of whatever else runs. \
Where a program imports torch first, that is too late for torch, and raters use one thread.
"""


def settings_page() -> str:
    """Return the whole page."""
    home = "\n".join(f"| `{name}` | {says} | `{default}` |" for name, (says, default) in VARIABLES.items())
    stores = "\n".join(
        f"| `{name}` | {says} | {f'`{default}`' if default else 'none'} |"
        for name, (says, default) in STORE_VARIABLES.items()
    )
    machines = "\n".join(f"| `{name}` | {says} | {default} |" for name, (says, default) in CLUSTER_VARIABLES.items())
    kinds = setting_types()
    lines = list[str]()
    for field in fields(ServeSettings):
        if field.name in _GROUPS:
            lines += ["", f"## {_GROUPS[field.name]}", "", "| variable | option | what it does | default | values |"]
            lines += ["|---|---|---|---|---|"]
        lines.append(_row(field, kinds[field.name]))
    return _HEAD.format(home=home, stores=stores, machines=machines) + "\n".join(lines) + "\n"


def _row(field: Field[Any], kind: type) -> str:
    default = default_text(field.default)
    cells = [
        f"`{variable_of(field.name)}`",
        f"`--{field.name.replace('_', '-')}`",
        field.metadata["says"].replace("|", r"\|"),
        f"`{default}`" if default else "none",
        _values(field, kind),
    ]
    return f"| {' | '.join(cells)} |"


def _values(field: Field[Any], kind: type) -> str:
    if kind is bool:
        return "yes or no"
    least, most = field.metadata["least"], field.metadata["most"]
    return "text" if least is None else f"{least:,} to {most:,}"
