"""From a recipe and a distribution's mirror to a guest image that boots."""
