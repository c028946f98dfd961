"""Worst-case execution times of layers by analysis, and models of their times from few measurements."""
