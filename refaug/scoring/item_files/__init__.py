"""The files that items are read from by jobs and previews: a table or items, or line-aligned texts.

The main names:

- `item_files.ItemFiles`: files with the names that messages have, and what their columns hold
- `item_files.AlignedFiles`: files with one text a line
- `item_files.preview`: the first items as they will be read, and what is wrong with the others.
"""

__all__ = ["item_files"]
