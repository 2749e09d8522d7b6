"""Passports of judges: what a judge is worth on labels by people, under which rubric, model and parameters.

The main names:

- `certify.certify`: labels and a judge to a passport
- `probes.probe_judge`: what moves a judge and should not
- `binding.Binding`: what a passport holds for
- `validity.PassportCheck`: whether a judge that scores has one that still holds.
"""
