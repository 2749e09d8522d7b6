"""What `reproduce recommended` is made of: rated replies with the parts of refaug-1, their agreement, and attacks.

The main names:

- `rated_replies.read_set`: the rows of a set that rate no gold
- `reference_forms.with_parts`: the parts of refaug-1 under retrieved references and their controls
- `agreement.GroupedSets.lead`: by how much one way to score agrees better than another
- `attacks.attack_figures`: replies that say nothing, beside the systems of a set.
"""

__all__ = ["agreement", "attacks", "rated_replies", "reference_forms"]
