"""The candidates of a search, merged over all segments of an index to one depth before they are compared exactly.

The main names:

- `pool.collect`: the candidates of some queries in all segments
- `pool.CandidateSegments`: the segments that are asked, wherever they lie
- `searched_segments.LocalSegments`: those of this process
- `pool.choose_best`: the best of a table, ties broken by the hash of the utterance.
"""

__all__ = ["pool", "searched_segments"]
