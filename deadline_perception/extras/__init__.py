"""Add-ons beside the suite: each folder is one, and nothing of the suite imports them."""
