"""Questions of the kernel's own: whose an answer is, and what becomes of one that is late."""

import asyncio

import pytest
from tests.support.front_end import in_a_loop

from branchpoint_kernel.messages import Channel, Message, Request, Stamp, made, message_from_parts
from branchpoint_kernel.publisher import Publisher
from branchpoint_kernel.questions import Questions
from branchpoint_vmruntime.errors import UsageError


class Front:
    """What a front end is asked."""

    def __init__(self) -> None:
        self.asked: list[Message] = []

    def send(self, channel: Channel, identities: tuple[bytes, ...], frames: list[bytes]) -> None:
        """Keep it."""
        assert (channel, identities) == (Channel.STDIN, (b"front",))
        self.asked.append(message_from_parts(channel, frames[2:]))


def a_cell(*, takes_input: bool = True) -> Request:
    cell = made(Channel.SHELL, "execute_request", {"code": "", "allow_stdin": takes_input})
    return Request(identities=(b"front",), message=cell, subshell=None)


def answer(value: str, question: Message | None = None) -> Message:
    """As front ends send it: some say what it answers."""
    parent = b"{}" if question is None else question.header
    return made(Channel.STDIN, "input_reply", {"value": value}, parent=parent)


@pytest.fixture
def front() -> Front:
    return Front()


@pytest.fixture
def questions(front: Front) -> Questions:
    return Questions(Publisher(front, Stamp(key=b"")))


async def asking(questions: Questions, cell: Request) -> asyncio.Task[str]:
    task = asyncio.create_task(questions.ask_unseen(cell, "KEY: "))
    await asyncio.sleep(0)
    return task


async def given_up(questions: Questions) -> None:
    task = await asking(questions, a_cell())
    task.cancel()
    await asyncio.wait([task])


@in_a_loop
async def _is_asked_unseen(front: Front, questions: Questions) -> None:
    cell = a_cell()
    task = await asking(questions, cell)
    (question,) = front.asked
    assert question.read() == {"prompt": "KEY: ", "password": True}
    assert question.parent_id == cell.id
    assert questions.take(answer("s3cr3t"))
    assert await task == "s3cr3t"


def test_a_question_is_asked_unseen_under_its_cell(front: Front, questions: Questions) -> None:
    _is_asked_unseen(front, questions)


@in_a_loop
async def _names_its_question(front: Front, questions: Questions) -> None:
    task = await asking(questions, a_cell())
    machines = made(Channel.STDIN, "input_request", {"prompt": "name? "})
    assert not questions.take(answer("Ada", machines))
    assert questions.take(answer("s3cr3t", front.asked[0]))
    assert await task == "s3cr3t"


def test_an_answer_to_a_machines_question_is_left_to_it(front: Front, questions: Questions) -> None:
    _names_its_question(front, questions)


@in_a_loop
async def _late(questions: Questions) -> None:
    await given_up(questions)
    assert questions.take(answer("s3cr3t"))
    assert not questions.take(answer("Ada"))


def test_an_answer_that_comes_too_late_falls(questions: Questions) -> None:
    _late(questions)


@in_a_loop
async def _late_by_name(front: Front, questions: Questions) -> None:
    await given_up(questions)
    questions.note_other()
    assert questions.take(answer("s3cr3t", front.asked[0]))


def test_a_late_answer_falls_though_a_machine_has_asked_since(
    front: Front, questions: Questions
) -> None:
    _late_by_name(front, questions)


@in_a_loop
async def _after_another(questions: Questions) -> None:
    await given_up(questions)
    questions.note_other()
    assert not questions.take(answer("Ada"))


def test_once_a_machine_has_asked_an_answer_without_a_name_is_for_it(questions: Questions) -> None:
    _after_another(questions)


@in_a_loop
async def _takes_no_input(front: Front, questions: Questions) -> None:
    with pytest.raises(UsageError, match="takes no input"):
        await questions.ask_unseen(a_cell(takes_input=False), "KEY: ")
    assert front.asked == []


def test_nobody_is_asked_where_no_input_is_taken(front: Front, questions: Questions) -> None:
    _takes_no_input(front, questions)
