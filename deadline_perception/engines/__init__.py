"""How a segment of a network is run on this device: eagerly, compiled in 8 bit, or as a recorded CUDA graph; and the
layers of which it runs a part."""
