"""refaug inside training frameworks; each module needs its framework, and none is imported before it is used.

The main names:

- `trl.RewardFunction`: a reward function for GRPOTrainer, RLOOTrainer and the like
- `transformers.ScoreReplies`: a callback that generates and scores replies at every evaluation
- `transformers.ReplyMetrics`: `compute_metrics` for Seq2SeqTrainer
- `lightning.ScoreReplies`: a callback that scores what `validation_step` has generated
- `distributed.ScoreMetric`: a metric over all ranks of torch.distributed, and work that rank 0 alone does.
"""

__all__ = ["distributed", "lightning", "transformers", "trl"]
