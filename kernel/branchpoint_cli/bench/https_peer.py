"""Run on the host: the server of `peers` in HTTPS, certified by the authority kept in a folder.

`python -m branchpoint_cli.bench.https_peer FOLDER`.
"""

import sys
from pathlib import Path

from branchpoint_cli.bench import peers
from branchpoint_vmruntime.outside.authority import Authority

if __name__ == "__main__":
    peers.serve(Authority.of(Path(sys.argv[1])).server_context(peers.HERE))
