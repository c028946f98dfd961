"""Detectors that were made elsewhere: how outputs are read, one file per family of heads, and how an image becomes
what they read."""
