"""Judges that are learnt from ratings, and the controls that they are compared with: `refaug agreement reproduce adem`.

The main names:

- `learners.Learner`: what is fitted to rated rows and then scores others
- `protocols.out_of_group`: scores of each set by learners that were fitted to the other groups
- `protocols.in_folds`: scores of each context by learners that were fitted to the others of its set.
"""
