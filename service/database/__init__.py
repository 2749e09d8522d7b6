"""The database of a home: connections, migrations, and stored answers of repeated requests."""
