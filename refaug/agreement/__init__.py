"""Agreement of metrics with people: `refaug agreement` and its probe; reports on raters.

The main names:

- `meta.agreement`: the agreement of several metrics on rated items
- `probe.probe`: how metrics respond to spoilt replies
- `exploits.search_constant`: a search for the cheapest reply
- `records.MetaResult`: everything that a report on agreement shows.
"""
