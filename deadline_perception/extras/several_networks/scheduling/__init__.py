"""Several networks on one processor: how good a level and a period are, which fit together, and which are best."""
