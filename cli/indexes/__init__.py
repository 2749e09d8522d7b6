"""Commands on word vectors and indexes."""
