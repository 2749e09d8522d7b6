"""Networks that write replies, trained and compared: hierarchical ones, with and without heads for emotion and meaning.

The main names:

- `variants.VARIANTS`: the six networks, the ablations and the controls
- `variants.train_variant`: a variant trained with a seed, kept in the home
- `talk.talk_of`: what a trained network says to itself, as numbers.
"""
