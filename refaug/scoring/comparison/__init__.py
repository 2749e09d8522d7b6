"""Two runs side by side: whether they may be compared, paired tests, and the replies that changed.

The main names:

- `comparison.compare`: two score files, or two systems of one, as a `RunComparison`
- `comparison.RunDifference`: what differs between files, and whether it matters
- `page.page`: a comparison as one HTML page without scripts
- `wording.as_csv`, `wording.as_latex`: tests and replies, one a line; the tests as a table for a paper.
"""
