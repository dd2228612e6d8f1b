"""A Jupyter kernel whose code runs in a microVM: the host process that Jupyter starts."""
