"""The nested classifier: what is in a crop of an image, computed at one of ten levels of one set of weights."""
