"""What a network is, and the networks that this package runs."""
