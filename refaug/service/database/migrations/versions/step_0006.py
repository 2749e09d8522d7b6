"""The tables of the first release, with which the numbers of steps begin: new databases get them from `tables.py`."""

revision = "0006"
down_revision = None


def upgrade() -> None:
    """Change nothing: whatever names this step has its tables."""
