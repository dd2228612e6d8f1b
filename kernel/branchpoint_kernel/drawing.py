"""Pictures are drawn in a thread, one after another: matplotlib's settings are global."""

import asyncio

# Two drawings at once would see each other's settings.
DRAWING = asyncio.Lock()
