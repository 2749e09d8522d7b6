"""Pre-training a VHRED on stored logs.

The main names:

- `build.pretrain_vhred`: logs to a published vhred
- `build.VhredOrder`: what is ordered
- `dialogues.ExcludedTexts`: what must not be seen.
"""
