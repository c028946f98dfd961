"""What every part builds on: paths, errors, times, files."""
