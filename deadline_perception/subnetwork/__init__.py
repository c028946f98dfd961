"""Sub-networks by importance: an ordinary network becomes elastic, so that inference and training fit a time budget (SubFlow)."""
