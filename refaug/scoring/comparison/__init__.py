"""Two runs side by side: whether they may be compared, paired tests, and the replies that changed.

The main names:

- `comparison.compare`: two score files, or two systems of one, as a `RunComparison`
- `comparison.RunDifference`: what differs between files, and whether it matters
- `report.page.page`: a comparison as an HTML page.
"""
