"""How a segment of a network is run on this device: eagerly, or as a recorded CUDA graph."""
