"""The guest's memory on the host: which pages it wrote, layers of them, and flat images to map."""
