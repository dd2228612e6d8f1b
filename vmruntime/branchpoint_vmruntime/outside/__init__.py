"""The edge between a session's machines and the outside world, which does not rewind."""
