"""Commands about the versions of artefacts, one implementation for every kind: list, publish, rollback, gc, remove."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from refaug.cli.shared.database import record_act
from refaug.cli.shared.output import JsonFlag, count_of, print_json, print_line, print_published, print_table
from refaug.core.errors import Usage

if TYPE_CHECKING:
    from refaug.core.home import Settings
    from refaug.evaluation.home.stored_artefacts import StoredArtefacts

Command = Callable[..., None]
FactsOfVersion = Callable[[Path], dict[str, object]]

ToOption = Annotated[str | None, typer.Option(help="The version to go back to.", metavar="VERSION")]
EvenRefusedFlag = Annotated[bool, typer.Option("--even-refused", help="Also a version that a check refused.")]
KeepOption = Annotated[int, typer.Option(help="So many of the newest versions stay.", min=0)]
EvenPinnedFlag = Annotated[bool, typer.Option("--even-pinned", help="Also remove versions that frozen sets name.")]


@dataclass(frozen=True, kw_only=True)
class VersionCommands:
    """The commands of one kind of artefact: the same for all kinds but for words and for the facts of a version.

    `name` and `spec` are the types of the arguments, with their help. `helps` has the help of each command.
    """

    kind: str
    plural: str
    name: Any
    spec: Any
    helps: Mapping[str, str]
    begin: str  # the command that makes a first version
    source: str = "LOG"  # what that command makes it of
    facts: FactsOfVersion  # of a version in the list, by its folder; one that is damaged does not hide the others
    removal: str = ""  # what remove takes away: "its versions"
    group: str = ""  # of the commands; the kind's name, unless a group has several kinds

    def list_command(self) -> Command:
        """Return the command that prints all versions."""

        def list_versions(context: typer.Context, as_json: JsonFlag = False) -> None:
            self._print_all(context.obj, as_json=as_json)

        return self._described(list_versions, "list")

    def publish_command(self) -> Command:
        """Return the command that lets a name stand for a version."""

        def publish(
            context: typer.Context, spec: str, even_refused: EvenRefusedFlag = False, as_json: JsonFlag = False
        ) -> None:
            name, at, version = spec.partition("@")
            if not at:
                raise Usage(
                    f"{spec!r} names no version", remedy=f"give NAME@VERSION: refaug {self.group or self.kind} list"
                )
            self._stored(context.obj).publish(name, version, even_refused=even_refused)
            record_act(context.obj, "publish", f"{self.kind} {name}@{version}")
            print_published(self.kind, name, version, as_json=as_json)

        return self._described(publish, "publish", spec=self.spec)

    def rollback_command(self) -> Command:
        """Return the command that publishes the version that was published before."""

        def rollback(
            context: typer.Context,
            name: str,
            to: ToOption = None,
            even_refused: EvenRefusedFlag = False,
            as_json: JsonFlag = False,
        ) -> None:
            if even_refused and to is None:
                raise Usage("--even-refused is about the version that --to names", remedy="name it: --to VERSION")
            version = self._stored(context.obj).rollback(name, to, even_refused=even_refused)
            record_act(context.obj, "rollback", f"{self.kind} {name}@{version}")
            print_published(self.kind, name, version, as_json=as_json)

        return self._described(rollback, "rollback", name=self.name)

    def gc_command(self) -> Command:
        """Return the command that removes old versions."""

        def gc(
            context: typer.Context,
            name: str,
            keep: KeepOption = 3,
            even_pinned: EvenPinnedFlag = False,
            as_json: JsonFlag = False,
        ) -> None:
            from refaug.evaluation.scoring.reference_sets.set_pins import pinned_versions  # noqa: PLC0415

            pins = {} if even_pinned else pinned_versions(context.obj, self.kind, name)
            old = self._stored(context.obj).gc(name, keep, pins)
            if old.removed:
                record_act(context.obj, "remove", f"{self.kind} {name}", versions=old.removed)
            if as_json:
                print_json({self.kind: name, **old.as_json()})
                return
            listed = f": {', '.join(old.removed)}" if old.removed else ""
            print_line(f"{self.kind} {name}: {count_of(len(old.removed), 'version')} removed{listed}")
            for version, sets in old.pinned.items():
                print_line(f"  {version} stays for the frozen {'sets' if len(sets) > 1 else 'set'} {', '.join(sets)}")
            for version, judges in old.needed.items():
                print_line(
                    f"  {version} stays for the fitted {'judges' if len(judges) > 1 else 'judge'} {', '.join(judges)}"
                )

        return self._described(gc, "gc", name=self.name)

    def remove_command(self, yes: Any) -> Command:
        """Return the command that removes an artefact; `yes` is the type of the option that confirms it."""

        def remove(context: typer.Context, name: str, yes: bool = False, as_json: JsonFlag = False) -> None:
            if not yes:
                raise Usage(f"this removes {self.kind} {name} with all {self.removal}", remedy="say --yes")
            removed = self._stored(context.obj).remove(name)
            record_act(context.obj, "remove", f"{self.kind} {name}", versions=removed)
            line = f"{self.kind} {name} removed: {count_of(len(removed), 'version')}"
            self._print_removed(name, removed, line, as_json=as_json)

        return self._described(remove, "remove", name=self.name, yes=yes)

    def _described(self, command: Command, verb: str, **arguments: Any) -> Command:
        """Return the command with the help and the argument types of this kind, which typer reads."""
        command.__doc__ = self.helps[verb]
        command.__annotations__.update(arguments)
        return command

    def _stored(self, settings: Settings) -> StoredArtefacts:
        from refaug.evaluation.home.stored_artefacts import stored_artefacts  # noqa: PLC0415  only where it is used

        return stored_artefacts(settings, self.kind)

    def _print_all(self, settings: Settings, *, as_json: bool) -> None:
        stored, rows = self._stored(settings).versions, self.rows(settings)
        if as_json:
            print_json({self.plural: rows})
        elif rows:
            print_table(f"{self.plural} in {stored.root}", list(rows[0]), [list(row.values()) for row in rows])
        else:
            print_line(
                f"no {self.plural} in {stored.root} yet: refaug {self.group or self.kind} {self.begin} {self.source}"
            )

    def rows(self, settings: Settings) -> list[dict[str, object]]:
        """Return the facts of every version of every artefact."""
        stored = self._stored(settings).versions
        return [
            {
                "name": name,
                "version": version,
                "published": version == stored.current(name),
                **self.facts(stored.folder(name, version)),
            }
            for name in stored.names()
            for version in stored.versions(name)
        ]

    def _print_removed(self, name: str, removed: list[str], line: str, *, as_json: bool) -> None:
        if as_json:
            print_json({self.kind: name, "removed": removed})
        else:
            print_line(line)
