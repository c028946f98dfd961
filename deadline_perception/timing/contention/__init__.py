"""How busy the machine is, and by what factor that slows a frame down."""
