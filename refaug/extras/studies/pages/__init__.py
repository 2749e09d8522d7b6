"""The pages of studies: for those who lead them, and for those who take part.

The main names:

- `shells.STUDIES`: the page at /studies
- `shells.TAKE`: the page at /take
- `shells.Shell`: what a page is.
"""
