"""What becomes of checkpoints on disk: their sizes, which go first, what proves them whole."""
