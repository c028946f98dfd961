"""How busy the machine is, and by what factor that stretches a frame."""
