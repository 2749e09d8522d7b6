"""Metrics that compare vectors of words or of texts.

The main names:

- `word_vector_metrics.EmbeddingMetric`: metrics of word vectors
- `encoder_metrics.BertScore`: BERTScore
- `encoder_metrics.SentenceCosine`: cosines of sentence vectors
- `recommended.Recommended`: refaug-1.
"""
