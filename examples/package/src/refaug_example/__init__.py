"""What a package adds to refaug: a metric that needs word vectors, and a kind of job."""
