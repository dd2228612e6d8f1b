"""Every route, and who answers it. Whoever asks must be logged in to the Jupyter server.

What changes nothing is `read` to its authorizer, the rest `execute`, all on `branchpoint`.
"""

from branchpoint_nbext.acting import ActHandler, AskHandler
from branchpoint_nbext.handling import Asked
from branchpoint_nbext.kernels import SessionOfHandler
from branchpoint_nbext.living import LiveHandler
from branchpoint_nbext.opening import OpenBranchHandler
from branchpoint_nbext.reading import LineageHandler, PictureHandler, SessionsHandler, ViewHandler

ROUTES: tuple[tuple[str, type[Asked]], ...] = (
    ("branchpoint/sessions", SessionsHandler),
    ("branchpoint/view", ViewHandler),
    ("branchpoint/session-of", SessionOfHandler),
    ("branchpoint/lineage", LineageHandler),
    (r"branchpoint/lineage\.svg", PictureHandler),
    ("branchpoint/live", LiveHandler),
    ("branchpoint/act", ActHandler),
    ("branchpoint/ask", AskHandler),
    ("branchpoint/open-branch", OpenBranchHandler),
)
