"""What a model's reply counted: plain, streamed and packed, and priced by the manifest."""

import gzip
import json
import tracemalloc
import zlib
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from branchpoint_vmruntime.ledger import Usage
from branchpoint_vmruntime.outside.facts import Price
from branchpoint_vmruntime.outside.usage import Metering, is_model_call, price_of

CHAT = "/v1/chat/completions"
MODEL = "small-1-2026-01-31"
PRICES = {"small-1": Price(input=0.15, output=0.6)}
COUNTED = Usage(model=MODEL, tokens_in=1200, tokens_out=34, micros=200)


def bare_deflate(data: bytes) -> bytes:
    packer = zlib.compressobj(wbits=-15)
    return packer.compress(data) + packer.flush()


def events(*told: object, end: str = "\n\n") -> bytes:
    return "".join(f"data: {json.dumps(it)}{end}" for it in told).encode()


PACKINGS = {
    "": bytes,
    "identity": bytes,
    "gzip": gzip.compress,
    "x-gzip": gzip.compress,
    "deflate": zlib.compress,
    "Deflate": bare_deflate,
}

PLAIN = json.dumps(
    {
        "id": "chatcmpl-1",
        "model": MODEL,
        "choices": [{"message": {"content": 'a "usage": {"prompt_tokens": 9} b'}}],
        "usage": {"prompt_tokens": 1200, "completion_tokens": 34, "total_tokens": 1234},
    }
).encode()
STREAMED = (
    events(
        {"model": MODEL, "choices": [{"delta": {"content": "hé"}}], "usage": None},
        {"model": MODEL, "choices": [], "usage": {"prompt_tokens": 1200, "completion_tokens": 34}},
    )
    + b"data: [DONE]\n\n"
)
RESPONSES = b"event: response.created\n" + events(
    {"type": "response.created", "response": {"model": MODEL, "usage": None}},
    {
        "type": "response.completed",
        "response": {"model": MODEL, "usage": {"input_tokens": 1200, "output_tokens": 34}},
    },
    end="\r\n\r\n",
)
ANTHROPIC = events(
    {
        "type": "message_start",
        "message": {
            "model": MODEL,
            "usage": {
                "input_tokens": 200,
                "cache_creation_input_tokens": 100,
                "cache_read_input_tokens": 900,
                "output_tokens": 1,
            },
        },
    },
    {"type": "content_block_delta", "delta": {"text": "hi"}},
    {"type": "message_delta", "delta": {}, "usage": {"output_tokens": 34}},
    end="\r\r",
)
REPLIES = {
    "plain": (CHAT, "application/json; charset=utf-8", PLAIN),
    "without a type": (CHAT, "", PLAIN),
    "streamed": (CHAT, "text/event-stream", STREAMED),
    "responses": ("/v1/responses", "Text/Event-Stream; charset=utf-8", RESPONSES),
    "anthropic": ("/v1/messages", "text/event-stream", ANTHROPIC),
}


def metered(reply: str, parts: list[bytes], packing: str = "") -> Usage | None:
    path, content_type, _ = REPLIES[reply]
    meter = Metering(PRICES).meter(path, content_type, packing)
    assert meter is not None
    for part in parts:
        meter.feed(part)
    return meter.usage()


def count(
    body: bytes, *, content_type: str = "application/json", packing: str = ""
) -> Usage | None:
    meter = Metering(PRICES).meter(CHAT, content_type, packing)
    assert meter is not None
    meter.feed(body)
    return meter.usage()


def cut(data: bytes, at: list[float]) -> list[bytes]:
    places = sorted({0, len(data), *(round(share * len(data)) for share in at)})
    return [data[begin:end] for begin, end in pairwise(places)]


@pytest.mark.parametrize("reply", REPLIES)
@pytest.mark.parametrize("packing", PACKINGS)
def test_a_reply_is_counted_whole_and_byte_by_byte(reply: str, packing: str) -> None:
    data = PACKINGS[packing](REPLIES[reply][2])
    assert metered(reply, [data], packing) == COUNTED
    assert metered(reply, [data[n : n + 1] for n in range(len(data))], packing) == COUNTED


@given(
    st.sampled_from(sorted(REPLIES)),
    st.sampled_from(sorted(PACKINGS)),
    st.lists(st.floats(0, 1), max_size=20),
)
def test_a_reply_counts_the_same_however_it_is_cut(
    reply: str, packing: str, at: list[float]
) -> None:
    data = PACKINGS[packing](REPLIES[reply][2])
    assert metered(reply, cut(data, at), packing) == COUNTED


@given(
    st.sampled_from(sorted(REPLIES)),
    st.sampled_from(sorted(PACKINGS)),
    st.lists(st.binary(max_size=60)),
    st.floats(0, 1),
)
def test_garbage_after_any_beginning_is_no_error(
    reply: str, packing: str, garbage: list[bytes], share: float
) -> None:
    data = PACKINGS[packing](REPLIES[reply][2])
    metered(reply, [data[: round(share * len(data))], *garbage], packing)


def test_a_stream_that_was_not_asked_for_its_usage_counts_nothing() -> None:
    body = events({"model": MODEL, "choices": [{"delta": {"content": "hi"}}]})
    assert count(body, content_type="text/event-stream") is None


def test_a_stream_that_tells_as_it_goes_counts_what_it_told_last() -> None:
    body = events(
        {"model": MODEL, "usage": {"prompt_tokens": 1200, "completion_tokens": 1}},
        {"model": MODEL, "usage": {"prompt_tokens": 1200, "completion_tokens": 34}},
        {"model": MODEL, "usage": None},
    )
    assert count(body, content_type="text/event-stream") == COUNTED


def test_an_event_s_data_may_be_on_several_lines() -> None:
    body = b'data: {"usage":\ndata: {"prompt_tokens": 5}}\n\n'
    usage = count(body, content_type="text/event-stream")
    assert usage is not None
    assert usage.tokens_in == 5


def test_other_fields_of_an_event_are_not_its_data() -> None:
    body = b': {"usage": {"prompt_tokens": 5}}\nid: {"usage": {"prompt_tokens": 5}}\n\n'
    assert count(body, content_type="text/event-stream") is None


def test_a_stream_that_is_cut_off_counts_what_it_had_told() -> None:
    assert metered("anthropic", [ANTHROPIC[: ANTHROPIC.index(b"content_block")]]) == Usage(
        model=MODEL, tokens_in=1200, tokens_out=1, micros=181
    )


def test_embeddings_count_what_went_in() -> None:
    body = json.dumps({"model": "e", "usage": {"prompt_tokens": 8, "total_tokens": 8}}).encode()
    assert count(body) == Usage(model="e", tokens_in=8, tokens_out=0)


def test_a_total_alone_counts_as_what_went_in() -> None:
    assert count(b'{"usage": {"total_tokens": 8}}') == Usage(model="", tokens_in=8, tokens_out=0)


@pytest.mark.parametrize(
    "usage",
    [
        "null",
        "[]",
        "7",
        "{}",
        '{"prompt_tokens": "7"}',
        '{"prompt_tokens": -7}',
        '{"prompt_tokens": true}',
        '{"prompt_tokens": 7.5}',
        '{"prompt_tokens": 1e3}',
        f'{{"prompt_tokens": {"9" * 5000}}}',
        f'{{"prompt_tokens": {1 << 60}}}',
    ],
)
def test_a_usage_that_is_none_counts_nothing(usage: str) -> None:
    assert count(f'{{"model": "m", "usage": {usage}}}'.encode()) is None


def test_a_usage_somewhere_below_is_not_the_reply_s() -> None:
    assert count(b'{"choices": [{"usage": {"prompt_tokens": 7}}], "x": {"usage": {}}}') is None


def test_a_model_s_name_is_kept_printable_and_short() -> None:
    model = "a\x1b[2Jb" + "c" * 1000
    usage = count(json.dumps({"model": model, "usage": {"prompt_tokens": 7}}).encode())
    assert usage is not None
    assert usage.model.startswith("a[2Jbc")
    assert len(usage.model) == 200


@pytest.mark.parametrize("packing", ["br", "zstd", "gzip, gzip", "compress"])
def test_a_packing_that_is_not_known_is_not_metered(packing: str) -> None:
    assert Metering(PRICES).meter(CHAT, "application/json", packing) is None


@pytest.mark.parametrize(
    ("path", "content_type"),
    [(CHAT, "text/html"), (CHAT, "application/octet-stream"), ("/v1/models", "application/json")],
)
def test_a_reply_that_is_no_model_s_is_not_metered(path: str, content_type: str) -> None:
    assert Metering(PRICES).meter(path, content_type, "") is None


def test_what_inflates_without_end_is_given_up() -> None:
    bomb = gzip.compress(b'{"x": "' + b"a" * (16 << 20) + b'", "usage": {"prompt_tokens": 7}}')
    assert count(bomb, packing="gzip") is None


def test_a_stream_of_lines_without_end_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("branchpoint_vmruntime.outside.usage._MOST_LINES", 1000)
    garbage = [b"data: {}\n\n" * 100] * 10
    parts = [*garbage, events({"usage": {"prompt_tokens": 7}})]
    assert metered("streamed", parts) is None


def long_reply(text: str, usage: str) -> bytes:
    return f'{{"model": "m", "x": "{text}", "usage": {usage}}}'.encode()


@pytest.mark.parametrize("packing", ["", "gzip", "deflate"])
@pytest.mark.parametrize("size", [60_000, 70_000, 700_000])
def test_a_long_reply_is_counted_to_its_end(packing: str, size: int) -> None:
    body = long_reply("a" * size, '{"prompt_tokens": 7}')
    usage = count(PACKINGS[packing](body), packing=packing)
    assert usage == Usage(model="m", tokens_in=7, tokens_out=0)


@pytest.mark.parametrize("size", [60_000, 70_000, 700_000])
def test_a_long_event_is_counted_to_its_end(size: int) -> None:
    body = b"data: " + long_reply("a" * size, '{"prompt_tokens": 7}') + b"\n\n"
    usage = count(body, content_type="text/event-stream")
    assert usage == Usage(model="m", tokens_in=7, tokens_out=0)


def test_a_long_reply_is_not_held() -> None:
    meter = Metering(PRICES).meter(CHAT, "application/json", "")
    assert meter is not None
    tracemalloc.start()
    try:
        meter.feed(b'{"x": "')
        piece = b"a" * (1 << 20)
        before, _ = tracemalloc.get_traced_memory()
        for _ in range(16):
            meter.feed(piece)
        after, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert after - before < 2 * len(piece)


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("POST", "/v1/chat/completions"),
        ("post", "/openai/deployments/x/chat/completions?api-version=2024-06-01"),
        ("POST", "/v1/completions/"),
        ("POST", "/v1/Embeddings"),
        ("POST", "/v1/chat/%63ompletions"),
        ("POST", "/v1/messages"),
        ("POST", "/v1/responses"),
    ],
)
def test_a_request_that_asks_a_model_is_known_by_its_path(method: str, path: str) -> None:
    assert is_model_call(method, path)


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("GET", "/v1/responses"),
        ("POST", "/v1/messages/count_tokens"),
        ("POST", "/v1/models?next=/v1/responses"),
        ("POST", "/"),
        ("POST", ""),
    ],
)
def test_other_requests_ask_no_model(method: str, path: str) -> None:
    assert not is_model_call(method, path)


@pytest.mark.parametrize(
    ("model", "listed"),
    [
        ("gpt-4o", "gpt-4o"),
        ("gpt-4o-2024-05-13", "gpt-4o"),
        ("gpt-4o-2024-08-06", "gpt-4o-2024-08-06"),
        ("gpt-4o-mini", "gpt-4o-mini"),
        ("gpt-4o-mini-2024-07-18", "gpt-4o-mini"),
        ("gpt-4o-latest", "gpt-4o"),
        ("gpt-4o-0613", "gpt-4o"),
        ("gpt-4o-20250514", "gpt-4o"),
        ("gpt-4o-2024-08-06-1234", "gpt-4o-2024-08-06"),
        ("gpt-4o-audio", None),
        ("gpt-4", None),
        ("gpt-4o-", None),
        ("a-gpt-4o", None),
        ("", None),
    ],
)
def test_a_dated_version_costs_what_its_model_costs(model: str, listed: str | None) -> None:
    names = ["gpt-4o", "gpt-4o-mini", "gpt-4o-2024-08-06"]
    prices = {name: Price(input=n, output=n) for n, name in enumerate(names)}
    assert price_of(model, prices) == (None if listed is None else prices[listed])


def test_a_model_without_a_price_is_counted_without_one() -> None:
    usage = count(b'{"model": "other", "usage": {"prompt_tokens": 7}}')
    assert usage == Usage(model="other", tokens_in=7, tokens_out=0, micros=None)
