"""`overhead_model.py THINK_S`: a model that adds, behind OpenAI's chat API, alone in its process.

Prints its address. It answers each request so long after it came whole, and one sum in three wrongly. `GET /told`
gives when each request since the last such question came and was answered, by its own clock, in seconds.
"""

import asyncio
import json
import re
import sys
import time
from typing import Any

SUM = re.compile(r"(\d+) \+ (\d+)")
HEAD = "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n"


class Model:
    def __init__(self, think_s: float) -> None:
        self.think_s = think_s
        self.asked: list[float] = []
        self.answered: list[float] = []

    def tell(self) -> bytes:
        told = {"asked": self.asked, "answered": self.answered}
        self.asked, self.answered = [], []
        return json.dumps(told).encode()


class Connection(asyncio.Protocol):
    """One request after the other, each whole."""

    def __init__(self, model: Model) -> None:
        self.model, self.left = model, b""

    def connection_made(self, transport: Any) -> None:
        self.transport = transport

    def data_received(self, data: bytes) -> None:
        self.left += data
        head, found, rest = self.left.partition(b"\r\n\r\n")
        if not found:
            return
        told = re.search(rb"(?i)content-length: *(\d+)", head)
        size = int(told[1]) if told else 0
        if len(rest) < size:
            return
        body, self.left = rest[:size], rest[size:]
        if head.startswith(b"POST"):
            self.model.asked.append(time.monotonic())
            asyncio.get_running_loop().call_later(self.model.think_s, self.answer, body)
        else:
            self.write(self.model.tell() if b"/told" in head.split(b"\r\n")[0] else b'{"data": [{"id": "adder"}]}')

    def answer(self, body: bytes) -> None:
        asked = json.loads(body)
        [one, other] = SUM.findall(json.dumps(asked["messages"][-1]))[-1]
        total = int(one) + int(other) + (int(one) % 3 == 0)
        message = {"role": "assistant", "content": str(total)}
        said = {
            "id": "chatcmpl-1", "object": "chat.completion", "created": 1_700_000_000, "model": asked["model"],
            "choices": [{"index": 0, "message": message, "finish_reason": "stop"}],
            "usage": {"prompt_tokens": 20, "completion_tokens": 3, "total_tokens": 23},
        }  # fmt: skip
        self.model.answered.append(time.monotonic())
        self.write(json.dumps(said).encode())

    def write(self, data: bytes) -> None:
        self.transport.write((HEAD % len(data)).encode() + data)


async def serve(think_s: float) -> None:
    model = Model(think_s)
    server = await asyncio.get_running_loop().create_server(lambda: Connection(model), "127.0.0.1", 0, backlog=512)
    print(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}", flush=True)
    await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(serve(float(sys.argv[1])))
