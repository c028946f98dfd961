"""Detectors that were made elsewhere, as networks: one from torchvision or an ONNX file, and several behind one
choice."""
