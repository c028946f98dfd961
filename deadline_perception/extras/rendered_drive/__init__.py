"""The rendered drive: a street, its traffic, and the camera that sees them, with every object's box."""
