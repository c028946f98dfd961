"""Driving sequences: read, rendered, and kept in bags."""
