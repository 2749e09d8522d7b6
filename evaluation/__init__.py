"""What is done with metrics: scoring, agreement with people, reproduction of claims, reports."""
