"""Driving sequences: read from data sets, and kept in bags."""
