"""How good and how timely the detections were."""
