"""What is known of the requests a kernel has not finished with."""

import json
from typing import Any

from branchpoint_kernel.messages import Channel, Message, made
from branchpoint_kernel.open_requests import OpenRequests, is_execution
from branchpoint_vmruntime.lineage import Cell, OpenRequest


def an_execution(code: str = "x = 1", **content: Any) -> Message:
    return made(Channel.SHELL, "execute_request", {"code": code, "silent": False, **content})


def an_answer(request: Message, channel: Channel, kind: str, **content: Any) -> Message:
    return made(channel, kind, content, parent=request.header)


def a_reply(request: Message, count: int = 4) -> Message:
    return an_answer(request, Channel.SHELL, "execute_reply", status="ok", execution_count=count)


def an_idle(request: Message) -> Message:
    return an_answer(request, Channel.IOPUB, "status", execution_state="idle")


def test_a_cell_is_open_from_its_sending_until_reply_and_idle() -> None:
    requests, cell = OpenRequests(), an_execution()
    requests.note_sent(cell, 4)
    assert requests.execution == OpenRequest(id=cell.id, cell=Cell(id="", count=4, source="x = 1"))
    requests.note_heard(a_reply(cell))
    requests.note_heard(an_idle(cell))
    assert requests.listing() == ()


def test_a_cell_whose_end_has_come_half_is_not_carried_on() -> None:
    for half in (a_reply, an_idle):
        requests, cell = OpenRequests(), an_execution()
        requests.note_sent(cell, 4)
        requests.note_heard(half(cell))
        (request,) = requests.listing()
        assert request.id == cell.id
        assert not is_execution(request)


def test_the_reply_tells_the_cell_for_the_history_with_the_kernels_number() -> None:
    requests, cell = OpenRequests(), an_execution()
    requests.note_sent(cell, 4)
    ended = requests.note_heard(a_reply(cell, count=9))
    assert ended is not None
    assert ended.count == 9


def test_what_is_not_stored_is_carried_on_but_is_no_cell_of_the_history() -> None:
    requests, cell = OpenRequests(), an_execution(store_history=False)
    requests.note_sent(cell, 4)
    assert requests.execution is not None
    assert requests.note_heard(a_reply(cell)) is None


def test_silent_cells_cells_of_subshells_and_other_requests_are_swallowed() -> None:
    silent = an_execution(silent=True)
    complete = made(Channel.SHELL, "complete_request", {"code": "x", "cursor_pos": 1})
    header = json.dumps({"msg_id": "s", "msg_type": "execute_request", "subshell_id": "1"})
    beside = an_execution()
    requests = OpenRequests()
    for message in (silent, complete):
        requests.note_sent(message, 4)
    requests.note_sent(_under_header(beside, header.encode()), 4)
    assert len(requests.listing()) == 3
    assert requests.execution is None


def test_a_question_is_open_until_it_is_answered() -> None:
    requests, cell = OpenRequests(), an_execution()
    requests.note_sent(cell, 4)
    requests.note_heard(an_answer(cell, Channel.STDIN, "input_request", prompt="who? "))
    assert requests.execution is not None
    assert json.loads(requests.execution.question) == {"prompt": "who? "}
    requests.note_answered()
    assert requests.execution.question == ""


def test_an_interrupt_ends_what_was_asked_before_it_alone() -> None:
    requests, cell = OpenRequests(), an_execution()
    requests.note_sent(cell, 4)
    asked = an_answer(cell, Channel.STDIN, "input_request", prompt="who? ")
    requests.note_heard(asked)
    before = requests.asking()
    requests.note_heard(asked)
    requests.note_ended(before)
    assert requests.asking()
    requests.note_ended(requests.asking())
    assert not requests.asking()
    assert requests.execution is not None


def test_what_was_open_at_the_checkpoint_is_open_in_the_woken_kernel() -> None:
    before, cell = OpenRequests(), an_execution()
    before.note_sent(cell, 4)
    after = OpenRequests()
    for request in before.listing():
        after.inherit(request)
    assert after.listing() == before.listing()


def _under_header(message: Message, header: bytes) -> Message:
    return Message(
        channel=message.channel,
        header=header,
        parent=message.parent,
        metadata=message.metadata,
        content=message.content,
        id="s",
        type=message.type,
        parent_id="",
    )
