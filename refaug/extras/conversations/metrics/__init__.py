"""Figures of whole conversations: what a person and a bot said to each other, as numbers.

The main names:

- `components.component_values`: the eleven components of Ghandeharioun et al. (2019), with their variants
- `exchanges.human_exchanges` and `exchanges.self_play_exchanges`: the turns, paired as those components need them
- `variety.Overlap`: how many conversations share runs of utterances, with each other or a log
- `variety.variety`: distinct words, repetition and lengths.
"""
