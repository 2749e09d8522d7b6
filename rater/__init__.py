"""The NN-rater: how well a candidate would answer a test utterance, learnt from utterances with several answers."""
