"""`refaug studies`: studies with people; its commands stand in the modules beside."""

from __future__ import annotations

import typer

app = typer.Typer(
    help="Studies with people: protocols, invitations and progress, power, figures and files.", no_args_is_help=True
)
