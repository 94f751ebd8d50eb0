"""How the desk's model writes a try as one text: its tags, the call of its tool and what that said."""

from collections.abc import Sequence
from typing import ClassVar

from tentalis.core import desk
from tentalis.core.worlds import AttemptDraft, DraftStep

_RESULT = ("<result> ", "</result>")


class DeskForm:
    stops: ClassVar[Sequence[str]] = ("</call>",)

    def find_call(self, text: str) -> tuple[str, str] | None:
        call = desk.find_open_call(text)
        if call is None:
            return None
        name, _, arguments = call.partition(" ")
        return name, arguments.strip()

    def write_result(self, result: str) -> str:
        return result.join(_RESULT)

    def read(self, parts: Sequence[tuple[str, bool]], *, is_cut: bool) -> AttemptDraft:
        text = "".join(part for part, _ in parts)
        results = iter(
            [part.removeprefix(_RESULT[0]).removesuffix(_RESULT[1]) for part, sampled in parts if not sampled]
        )
        steps = [
            DraftStep(
                kind="other" if segment.kind == "bad" else segment.kind,
                text=segment.text,
                tool_name=segment.text.partition(" ")[0] if segment.kind == "call" else "",
                tool_result=next(results, "") if segment.kind == "call" else "",
            )
            for segment in desk.read_attempt(text).segments
        ]
        text = text.removesuffix(desk.END_MARK)
        return AttemptDraft(
            text=text,
            answer=next((step.text for step in reversed(steps) if step.kind == "answer"), ""),
            steps=steps,
            ended=not is_cut and not text.endswith(tuple(self.stops)),
            finish_reason="length" if is_cut else "stop",
        )
