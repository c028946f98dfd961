"""Sub-networks by importance (SubFlow): an ordinary network becomes elastic, and fits a time budget."""
