"""How well objects are found: average precision by path, class and size, and its uncertainty."""
