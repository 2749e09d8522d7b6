"""Routes of pages for people: the playground and its neighbours, and the documentation of the API.

The main names:

- `shells.router`: the pages that ask the API
- `documentation.router`: /docs, the OpenAPI document, and the meanings of problem codes
"""

__all__ = ["documentation", "shells"]
