"""Pieces of a stream that are merged on the short way come to what all of them come to on the long one."""

import json
from typing import Any

import pytest

from apps.gateway.merging import Merger, merge_answer

Json = dict[str, Any]


def piece(text: Any, *ids: int, index: Any = 0, finish: str | None = None, **more: Any) -> Json:
    entries = [{"token": "t", "logprob": -id / 10, "bytes": [], "top_logprobs": []} for id in ids]
    choice = {"index": index, "delta": {"content": text}, "logprobs": {"content": entries} if ids else None}
    return {"model": "m", "choices": [choice | {"finish_reason": finish, "token_ids": list(ids)}]} | more


BEGUN = piece("", prompt_token_ids=[7, 8])
USUAL = [
    BEGUN,
    piece("a", 1),
    piece("b", 2),
    piece("", finish="stop"),
    {"model": "m", "choices": [], "usage": {"n": 1}},
]
CALL: Json = {"model": "m", "choices": [{"index": 0, "delta": {"tool_calls": [{"index": 0, "id": "c"}]}}]}
BOTH = {"model": "m", "choices": [*piece("a", 1)["choices"], *piece("b", 2, index=1)["choices"]]}


@pytest.mark.parametrize(
    ("chunks", "short"),
    [
        (USUAL, 2),
        ([BEGUN, piece("ab", 1, 2), piece("c", 3)], 1),
        ([BEGUN, CALL, piece("c", 3)], 1),
        ([BOTH, piece("a", 3), BOTH, piece("b", 4, index=1), piece("late", 5, finish="stop"), piece("later", 6)], 2),
        ([BEGUN, piece("a", 1) | {"model": "other"}, piece("b", 2), piece("c", 3, error="broken")], 0),
        ([BEGUN, piece(["part"], 1), piece(None, 2), piece("c", 3, index=None), piece("d", 4, index=9)], 0),
        ([BEGUN, piece("a"), piece("b", usage={"prompt_tokens": 2}), piece("c")], 2),
    ],
)
def test_pieces_come_to_what_whole_chunks_do(chunks: list[Json], short: int) -> None:
    merger, place, count = Merger(), 0, 0
    while place < len(chunks):
        pieces = merger.add_pieces(chunks, place)
        count += len(pieces)
        place += len(pieces)
        merger.add(chunks[place : place + 1])
        place += 1
    parts, envelope = merge_answer(json.loads(json.dumps(chunks)))
    assert (merger.choices, merger.envelope, count) == (parts, envelope, short)
