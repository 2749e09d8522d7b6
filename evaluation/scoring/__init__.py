"""From test items to scores: items, augmentation with references, evaluation, sums of batches."""
