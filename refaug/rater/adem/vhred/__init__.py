"""The VHRED (Serban et al. 2017): a hierarchical encoder of dialogues, a latent variable a turn, and a decoder.

The main names:

- `artefact.Vhred`: a pre-trained network with its tokenizer: vectors of dialogues
- `network.VhredNetwork`: the network
- `sizes.PRESETS`: sizes that go together.
"""
