"""From a recording of the nodes to a page: timeliness, causes of misses, charts, pictures."""
