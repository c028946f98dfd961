"""Training a multi-path detector."""
