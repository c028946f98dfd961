"""Detectors made elsewhere: exported files, their conventions, and sets of several models."""
