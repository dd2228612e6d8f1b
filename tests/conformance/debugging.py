"""The debugger, as JupyterLab drives it: DAP in `debug_request`s on control."""

from typing import Any

from tests.conformance.recorder import FrontEnd, Play

FUNCTION = "def stepped(n):\n    doubled = 2 * n\n    return doubled\nprint(stepped(21))"


class Debugger:
    """A DAP client over a kernel's control channel."""

    def __init__(self, kernel: FrontEnd) -> None:
        self._kernel = kernel
        self._number = 0

    def ask(self, command: str, **arguments: Any) -> dict[str, Any]:
        """A request of the protocol; the body of its answer."""
        self._number += 1
        reply = self._kernel.ask(
            "control",
            "debug_request",
            type="request",
            seq=self._number,
            command=command,
            arguments=arguments,
        )
        return reply.get("body", {})

    def attach(self) -> None:
        """Begin a session, as JupyterLab does."""
        self.ask("debugInfo")
        self.ask(
            "initialize",
            clientID="test",
            clientName="test",
            adapterID="python",
            pathFormat="path",
            linesStartAt1=True,
            columnsStartAt1=True,
            supportsVariableType=True,
            supportsVariablePaging=True,
            supportsRunInTerminalRequest=True,
            locale="en",
        )
        self.ask("attach")

    def stop_in(self, code: str, line: int) -> str:
        """Set a breakpoint in a cell, run it, wait until it has stopped; the cell's request."""
        source = self.ask("dumpCell", code=code)["sourcePath"]
        self.ask(
            "setBreakpoints",
            breakpoints=[{"line": line}],
            source={"path": source},
            sourceModified=False,
        )
        self.ask("configurationDone")
        request = self._kernel.execute(code)
        self._kernel.wait(lambda: self.events("stopped"))
        return request

    def events(self, name: str) -> list[dict[str, Any]]:
        """The bodies of the events of a name so far."""
        events = [m.content for m in self._kernel.heard if m.type == "debug_event"]
        return [event.get("body") or {} for event in events if event["event"] == name]


def stopped_at_a_breakpoint(kernel: FrontEnd) -> None:
    debugger = Debugger(kernel)
    debugger.attach()
    cell = debugger.stop_in(FUNCTION, 3)
    thread = debugger.events("stopped")[0]["threadId"]
    frame = debugger.ask("stackTrace", threadId=thread)["stackFrames"][0]
    scope = debugger.ask("scopes", frameId=frame["id"])["scopes"][0]
    debugger.ask("variables", variablesReference=scope["variablesReference"])
    debugger.ask("debugInfo")
    debugger.ask("next", threadId=thread)
    kernel.wait(lambda: len(debugger.events("stopped")) == 2)
    debugger.ask("continue", threadId=thread)
    kernel.finish(cell)
    # As JupyterLab has it: the other ends the kernel, half a second after the reply or before it.
    debugger.ask("disconnect", restart=False, terminateDebuggee=False)


def variables_without_a_stop(kernel: FrontEnd) -> None:
    kernel.run("%reset -f")
    kernel.run("inspected_value = {'k': [1, 2]}")
    debugger = Debugger(kernel)
    debugger.ask("debugInfo")
    debugger.ask("inspectVariables")
    debugger.ask("richInspectVariables", variableName="inspected_value")


DEBUGGING: dict[str, Play] = {
    "the debugger's view of variables": variables_without_a_stop,
    "the debugger stopped at a breakpoint": stopped_at_a_breakpoint,
}
