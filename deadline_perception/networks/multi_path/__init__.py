"""The multi-path detector: an image and an execution path in, detections out."""
