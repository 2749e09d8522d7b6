"""The dual rater: one tower reads the turns, one the reply, and a reply is rated by how alike the two vectors are.

The main names:

- `network.DualNetwork`: the two towers
- `build.train_dual`: logs to a published rater
- `checkpoint.DualRater`: rates with it
- `in_batch.PairBatches`: batches of pairs, and the softmax over their replies.
"""
