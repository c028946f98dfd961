"""Several networks on one processor: how good a level and a period are, which of them fit together, and which are best."""
