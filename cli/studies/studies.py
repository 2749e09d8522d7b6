"""`refaug studies`: studies with people; its commands stand in the modules beside."""

from __future__ import annotations

import typer

app = typer.Typer(help="Studies with people: their power, their figures, and their files.", no_args_is_help=True)
