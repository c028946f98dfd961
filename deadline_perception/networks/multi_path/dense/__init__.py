"""A multi-path detector whose first stage knows classes: an answer of its own, which regions can improve."""
