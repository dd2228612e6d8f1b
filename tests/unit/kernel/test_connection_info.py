"""Who asks for the kernel's connection is told of the proxy's, not of one inside the guest."""

import json
from pathlib import Path
from typing import Any

from tests.support.front_end import in_a_loop, open_notebook


def read(connection_file: str) -> dict[str, Any]:
    return json.loads(Path(connection_file).read_bytes())


@in_a_loop
async def test_connection_info_names_the_ports_that_the_client_is_connected_to() -> None:
    async with open_notebook() as notebook:
        client = notebook.client
        message = client.session.msg("connect_request", {})
        client.shell_channel.send(message)
        reply = await notebook.reply(message["header"]["msg_id"])
        used = read(client.connection_file)
        named = {name: port for name, port in reply["content"].items() if name.endswith("_port")}
        assert named == {name: used[name] for name in used if name.endswith("_port")}
