"""Images: read from files and messages, and drawn on."""
