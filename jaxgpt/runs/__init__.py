"""A run directory that describes itself: manifest, lock, checkpoints and metrics."""
