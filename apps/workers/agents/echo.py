"""The worker that needs no model."""

from collections.abc import Sequence

from tentalis.core.worlds import AttemptDraft, DraftStep, World


class EchoAgent:
    """Answers with the prompt; for trying out everything around a worker."""

    def work(
        self,
        *,
        prompts: Sequence[str],
        world: World,
        group_size: int,
        seeds: Sequence[int | None],
        model: str,
        greedy: bool = False,
    ) -> list[list[AttemptDraft]]:
        return [[_echo(prompt, world)] * group_size for prompt in prompts]


def _echo(prompt: str, world: World) -> AttemptDraft:
    return AttemptDraft(
        text=prompt,
        answer=prompt,
        steps=[DraftStep(kind="step", text=prompt)],
        messages=world.messages_for(prompt, ""),
        finish_reason="stop",
        elapsed_s=0.0,
    )
