"""Where arrays live: the mesh of devices, and CPU devices one per core."""
