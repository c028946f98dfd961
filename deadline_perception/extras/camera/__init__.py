"""What is wrong with a camera's topic."""
