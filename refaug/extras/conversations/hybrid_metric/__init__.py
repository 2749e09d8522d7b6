"""The hybrid metric: components of conversations, fitted to ratings, and judged on bots that the fit has not seen.

The main names:

- `fit.leave_one_bot_out`: what the fit on all other bots predicts for each bot
- `agreement.agreement_of_bots`: the correlation of these predictions with people's means
- `controls`: what the same procedure gives where there is nothing to be found
- `controls.resampled_correlations`: intervals over bots and conversations
- `fit.HybridWeights`: what a fit leaves behind, to score other conversations by
- `encoders.open_encoders`: the encoders that options name: the published ones, or what stands in for them.
"""
