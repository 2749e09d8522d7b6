"""The cross rater: a small Transformer that reads the turns, a response that is known to fit, and the reply at once.

The main names:

- `model.CrossNetwork`: the network, and `array_network.ArrayCross` where torch is not installed
- `build.train_cross`: logs to a published rater
- `checkpoint.CrossRater`: ratings of responses.
"""
