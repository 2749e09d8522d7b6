"""What every training shares: the loop, its order, corpora, examples, negatives, measures of accuracy.

The main names:

- `loop.run`: the training loop with its checkpoints
- `order.train_network`: from an order to a published version
- `examples.Examples`: examples in batches.
"""
