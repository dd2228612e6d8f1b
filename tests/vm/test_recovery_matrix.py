"""The recovery matrix: when an action is cut into, how, and what has changed on the other side."""

from collections.abc import Generator
from pathlib import Path

import pytest
from tests.support.effects_server import EffectsServer, Verdict
from tests.support.live_kernel import LiveKernel
from tests.support.recovery import REFUSAL, Edge, Trouble, Way

from branchpoint_vmruntime.home import Home
from branchpoint_vmruntime.ledger import OutcomeState

pytestmark = pytest.mark.vm

WAYS = ("rollback", "fork", "resume")
TROUBLES = ("fine", "expired", "withdrawn")
ways = pytest.mark.parametrize("way", WAYS)
troubles = pytest.mark.parametrize("trouble", TROUBLES)
DONE, REFUSED, UNKNOWN = OutcomeState.DONE, OutcomeState.REFUSED, OutcomeState.UNKNOWN


@pytest.fixture(scope="module")
def prepared(
    home: Home, shared_kernel: LiveKernel, tmp_path_factory: pytest.TempPathFactory
) -> Generator[Edge]:
    """A machine that may act on the server."""
    credential: Path = tmp_path_factory.mktemp("secret") / "credential"
    with EffectsServer() as server:
        edge = Edge(shared_kernel, server, home, credential)
        edge.prepare()
        yield edge


@pytest.fixture
def edge(prepared: Edge) -> Generator[Edge]:
    """The same, all well on the other side."""
    yield prepared
    prepared.mend()


def send_until_done(edge: Edge, name: str, trouble: Trouble, branch: str) -> list[OutcomeState]:
    """Send a request that nothing was done about; how each of them is to be recorded."""
    if trouble == "fine":
        assert edge.value(f"send({name!r})", branch).startswith("201 done")
        return [DONE]
    assert edge.value(f"send({name!r})", branch).startswith(REFUSAL[trouble])
    assert f"key {name}, not used up" in edge.line(name)
    edge.mend()
    assert edge.value(f"send({name!r})", branch).startswith("201 done")
    return [REFUSED, DONE]


@troubles
@ways
def test_what_had_not_left_whole_is_sent_once(edge: Edge, way: Way, trouble: Trouble) -> None:
    name = edge.name("before", way, trouble)
    edge.begin("send", name, is_open=False)
    branch, told = edge.interrupt(way)
    assert name not in told
    assert edge.server.attempts(name) == []
    assert edge.requests(name) == []
    edge.befall(trouble)
    expected = send_until_done(edge, name, trouble, branch)
    if way != "rollback":
        # What was half sent is cut off where the machine woke, and goes on where it ran on.
        assert edge.value(f"end({name!r})", branch).startswith("cut off")
    if way == "fork":
        assert edge.value(f"end({name!r})").startswith("201 replayed done")
    assert edge.check_agreement(name) == expected
    edge.leave(branch)


@troubles
@ways
def test_what_the_server_works_on_is_waited_for(edge: Edge, way: Way, trouble: Trouble) -> None:
    name = edge.name("waits", way, trouble)
    edge.server.hold(name)
    edge.begin("send", name)
    edge.server.wait_for(name)
    branch, told = edge.interrupt(way)
    assert (f"/orders/{name} under way" in told) == (way == "rollback")
    edge.befall(trouble)
    asked = edge.start(f"send({name!r})", branch)
    edge.server.release(name)
    again = edge.finish(asked)
    expected = [DONE]
    if trouble == "fine":
        assert again.startswith("201 replayed done")
    else:
        # The first was refused, so that the key was free for the second, which was refused too.
        assert again.startswith(REFUSAL[trouble])
        edge.mend()
        assert edge.value(f"send({name!r})", branch).startswith("201 done")
        expected = [REFUSED, REFUSED, DONE]
    if way == "fork":
        first = "201 done" if trouble == "fine" else REFUSAL[trouble]
        assert edge.value(f"end({name!r})").startswith(first)
    assert edge.check_agreement(name) == expected
    edge.leave(branch)


@troubles
@ways
def test_what_has_succeeded_is_given_again(edge: Edge, way: Way, trouble: Trouble) -> None:
    name = edge.name("after", way, trouble)
    first = edge.value(f"send({name!r})")
    assert first.startswith("201 done")
    branch, told = edge.interrupt(way, back=True)
    if way == "rollback":
        assert "not undone: " in told
    if way == "fork":
        assert "made that the forks know nothing of" in told
    assert (f"/orders/{name} 201" in told) == (way != "resume")
    edge.befall(trouble)
    assert edge.value(f"send({name!r})", branch) == first.replace("201", "201 replayed")
    assert "replayed" in edge.line(name)
    assert edge.check_agreement(name) == [DONE]
    edge.leave(branch)


@pytest.mark.parametrize("verdict", [Verdict.VANISH, Verdict.FAULT, Verdict.DROP])
@ways
def test_what_the_server_did_not_answer_well_is_unknown_until_a_person_has_looked(
    edge: Edge, way: Way, verdict: Verdict
) -> None:
    name = edge.name("cut", way, verdict.value)
    edge.server.hold(name)
    edge.begin("send", name)
    edge.server.wait_for(name)
    branch, _ = edge.interrupt(way)
    asked = edge.start(f"send({name!r})", branch)
    edge.server.release(name, verdict)
    told = edge.finish(asked)
    ended = "answered with 503" if verdict is Verdict.FAULT else "cut off"
    assert told.startswith("409")
    assert f"POST under the key '{name}' was begun on branch main at" in told
    assert f"UTC and {ended}: nobody knows whether it took effect" in told
    assert "Branchpoint-Unknown: retry" in told
    assert f"%ledger --accept {name}, or --retry {name}" in edge.kernel.run("%ledger").text
    effects = int(verdict is not Verdict.DROP)
    assert edge.check_agreement(name, effects=effects) == [UNKNOWN]
    if verdict is not Verdict.DROP:
        assert "taken to have taken place" in edge.kernel.run(f"%ledger --accept {name}").text
        assert edge.value(f"send({name!r})", branch).startswith("204 replayed")
        assert edge.check_agreement(name) == [OutcomeState.ACCEPTED]
    else:
        if way == "resume":
            told = edge.kernel.run(f"%ledger --retry {name}").text
            assert "done again by whoever asks next" in told
        again = f"send({name!r}, retry={way != 'resume'})"
        assert edge.value(again, branch).startswith("201 done")
        assert edge.check_agreement(name) == [UNKNOWN, DONE]
    edge.leave(branch)


@ways
def test_a_function_cut_into_before_its_request_does_not_go_on_elsewhere(
    edge: Edge, way: Way
) -> None:
    name = edge.name("once-before", way)
    edge.begin("once", name, is_open=False)
    branch, told = edge.interrupt(way)
    if way == "fork":
        edge.value(f"gates[{name!r}].set()", branch)
        assert edge.server.attempts(name) == []
        ours = edge.value(f"end({name!r})")
        assert ours.startswith("201 done")
        assert edge.value(f"end({name!r})", branch) == ours
        assert edge.check_agreement(name) == [DONE]
        assert _run_states(edge, name) == [DONE]
        edge.leave(branch)
        return
    if way == "rollback":
        assert f"once '{name}' outcome unknown" in told
    unknown = edge.value(f"end({name!r})" if way == "resume" else f"once({name!r})")
    assert _is_unknown(unknown, name)
    assert edge.check_agreement(name, effects=0) == []
    assert edge.value(f"once({name!r}, retry=True)").startswith("201 done")
    assert edge.check_agreement(name) == [DONE]
    assert _run_states(edge, name) == [UNKNOWN, DONE]


@pytest.mark.parametrize("verdict", [Verdict.ANSWER, Verdict.DROP])
@ways
def test_a_function_cut_into_while_its_server_works_is_unknown_or_waited_for(
    edge: Edge, way: Way, verdict: Verdict
) -> None:
    name = edge.name("once-waits", way, verdict.value)
    edge.server.hold(name)
    edge.begin("once", name)
    edge.server.wait_for(name)
    branch, told = edge.interrupt(way)
    if way == "fork":
        theirs = edge.start(f"once({name!r})", branch)
        edge.server.release(name, verdict)
        ours = edge.value(f"end({name!r})")
        assert ours.startswith("201 done" if verdict is Verdict.ANSWER else "502")
        assert edge.finish(theirs) == ours
        effects = int(verdict is Verdict.ANSWER)
        assert len(edge.check_agreement(name, effects=effects)) == 1
        assert _run_states(edge, name) == [DONE]
        edge.leave(branch)
        return
    edge.server.wait_until_deserted(name)
    edge.server.release(name, verdict)
    if way == "rollback":
        assert f"once '{name}' outcome unknown" in told
    unknown = edge.value(f"once({name!r})")
    assert _is_unknown(unknown, name)
    if verdict is Verdict.ANSWER:
        assert edge.check_agreement(name) == [UNKNOWN]
        edge.kernel.run(f"branchpoint.accept({name!r}, 'as I saw')")
        assert edge.value(f"once({name!r})") == "as I saw"
        assert _run_states(edge, name) == [OutcomeState.ACCEPTED]
    else:
        assert edge.value(f"once({name!r}, retry=True)").startswith("201 done")
        assert edge.check_agreement(name) == [UNKNOWN, DONE]
        assert _run_states(edge, name) == [UNKNOWN, DONE]


@ways
def test_a_function_that_has_returned_is_not_run_again(edge: Edge, way: Way) -> None:
    name = edge.name("once-after", way)
    receipt = edge.value(f"once({name!r})")
    assert receipt.startswith("201 done")
    branch, told = edge.interrupt(way, back=True)
    assert (f"once '{name}' done" in told) == (way != "resume")
    assert edge.value(f"once({name!r})", branch) == receipt
    assert edge.check_agreement(name) == [DONE]
    assert _run_states(edge, name) == [DONE]
    edge.leave(branch)


def _run_states(edge: Edge, name: str) -> list[OutcomeState | None]:
    return [entry.outcome and entry.outcome.state for entry in edge.runs(name)]


def _is_unknown(told: str, name: str) -> bool:
    return (
        told.startswith(f"UnknownOutcomeError: '{name}' was begun on branch main at")
        and "nobody knows whether it took effect" in told
        and f"%ledger --accept {name}" in told
    )
