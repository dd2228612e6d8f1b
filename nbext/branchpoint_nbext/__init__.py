"""What the Jupyter server and its pages show of a lineage."""
