"""refaug inside training frameworks and trackers; each module needs its framework, which is imported with it alone.

The main names:

- `trl.RewardFunction`: a reward function for GRPOTrainer, RLOOTrainer and the like
- `transformers.ScoreReplies`: a callback that generates and scores replies at every evaluation
- `transformers.ReplyMetrics`: `compute_metrics` for Seq2SeqTrainer
- `lightning.ScoreReplies`: a callback that scores what `validation_step` has generated
- `distributed.ScoreMetric`: a metric over all ranks of torch.distributed, and work that rank 0 alone does
- `wandb.log_scores`, `mlflow.log_scores`, `tensorboard.log_scores`: scores in a tracker of experiments.
"""
