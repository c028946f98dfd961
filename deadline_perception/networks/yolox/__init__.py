"""YOLOX-Nano: a small detector that its authors trained on COCO, as a network that decides the size of its input."""
