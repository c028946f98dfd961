"""What several scripts of this folder use, or one that would be too long otherwise."""
