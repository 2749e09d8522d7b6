"""Agreement of metrics with people: `refaug agreement` and its probe; reports on raters.

The main names:

- `meta.agreement`: the agreement of several metrics on rated items
- `probe.probe`: how metrics respond to spoilt replies
- `exploits.exploits_of`: the cheapest replies that a metric pays for
- `records.MetaResult`: everything that a report on agreement shows.
"""
