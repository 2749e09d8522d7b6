"""ADEM, the learned judge of Lowe et al. (2017), and the VHRED whose encoder it stands on.

The main names:

- `scorer.adem.Adem`: a scorer fitted to ratings, with its encoder
- `scorer.fitting.fit_scorer`: from rated replies to a scorer
- `vhred.artefact.Vhred`: a pre-trained network: vectors of dialogues
- `pretraining.build.pretrain_vhred`: logs to a published vhred.
"""
