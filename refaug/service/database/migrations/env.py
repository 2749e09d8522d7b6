"""The environment of Alembic: it runs the migrations on the given connection and in its transaction."""

from __future__ import annotations

from alembic import context

context.configure(connection=context.config.attributes["connection"])
context.run_migrations()
