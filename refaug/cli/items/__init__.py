"""Commands about test files.

The main names:

- `items.convert_command`: `refaug sets convert`, from a table of any kind to JSON lines
- `items.TableOptions`: which columns hold what
- `items.StrictFlag`: bad items end with exit code 3.
"""

__all__ = ["items"]
