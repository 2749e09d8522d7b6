"""Commands on references and scores: refs, score, sets, metrics, meta, diagnose, reproduce."""
