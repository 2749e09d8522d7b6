"""refaug inside training frameworks; each module needs its framework, and none is imported before it is used.

trl             a reward function for GRPOTrainer, RLOOTrainer and the like
transformers    a callback that generates and scores replies at every evaluation; `compute_metrics` for Seq2SeqTrainer
lightning       a callback that scores what `validation_step` has generated
distributed     a metric over all ranks of torch.distributed, and work that rank 0 alone does
"""
