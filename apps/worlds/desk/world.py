"""The ticket desk as a world: every attempt can be verified, and one family of tickets needs the stock tool."""

from collections.abc import Mapping, Sequence
from random import Random
from typing import Any, ClassVar

from apps.worlds.desk.rubric import DeskRubric
from tentalis.core import desk
from tentalis.core.hints import hinted_prompt, write_behind_task
from tentalis.core.scoring.verdicts import VerdictQuestion, ask_in_turns
from tentalis.core.worlds import (
    AgentKind,
    AttemptDraft,
    DraftStep,
    HintGrammar,
    PanelItem,
    Solution,
    Verification,
    World,
)


def _read_hints(text: str) -> str:
    return ", ".join(desk.parse_hints(text))


class DeskWorld(World):
    """Tickets in, chains of steps with an answer out."""

    name = "desk"
    label = "Ticket desk"
    made_of = ("tentalis.core.desk", "tentalis.core.desk_rubric")
    noun = "ticket"
    profile: ClassVar = {"outcome": 0.5, "step_verifier": 0.5}
    manager = "rule-book"
    grammar = HintGrammar(_read_hints, f'"use fee" or "{desk.UNIT_HINT}"')
    rubric = DeskRubric()

    def refuse_agent(self, kind: AgentKind) -> str:
        return "works with tools of its own and cannot use the ticket desk's" if kind.acts else ""

    def find_rules(self, prompt: str) -> Sequence[str]:
        return desk.rule_book_hints(desk.parse_ticket(prompt))

    def find_kind(self, prompt: str) -> str:
        try:
            ticket = desk.parse_ticket(prompt)
        except desk.DeskError:
            return "no ticket"
        return f"{ticket.family}, {ticket.context}"

    def ask_verdict(self, prompt: str, text: str) -> VerdictQuestion:
        """The ticket, the answer and "ok?": all that its small model can read, and no rubric, which it has to learn
        from audits."""
        return ask_in_turns((("user", prompt), ("assistant", text), ("user", "ok?")), " yes", " no")

    def say_limits(self) -> Sequence[str]:
        return desk.say_forms()

    def draw_prompt(self, rng: Random) -> str | None:
        """A ticket of any family that is not held out."""
        return desk.make_tickets(rng, 1, held_out=False)[0].text

    def check_prompt(self, prompt: str) -> None:
        """Refuse what is not exactly one ticket; raises ValueError. Hints come from managers, not with the task."""
        ticket = desk.parse_ticket(prompt)
        if prompt.strip() != ticket.text:
            raise ValueError(f"a desk task is the ticket alone: wanted {ticket.text!r}, found {prompt[:200]!r}")

    def check_reference(self, reference: Any) -> None:
        """Raise ValueError for any reference: the shop's rules say what is right."""
        if reference is not None:
            raise ValueError("a ticket takes no reference: the shop's rules say what is right")

    def is_held_out(self, prompt: str) -> bool:
        """Whether the prompt is a ticket that nothing may be trained on."""
        return desk.is_held_out(desk.parse_ticket(prompt).text)

    def messages_for(self, prompt: str, system_prompt: str) -> list[dict[str, str]]:
        system = [{"role": "system", "content": system_prompt}] if system_prompt else []
        return [*system, {"role": "user", "content": prompt.strip()}]

    def call_tool(self, prompt: str, name: str, arguments: str) -> str:
        """Pieces on stock according to the source `name` (room, list or web); "none" for any other source."""
        found = desk.look_up_stock(desk.parse_ticket(prompt), name)
        return "none" if found is None else str(found)

    def verify(self, prompt: str, reference: Any, draft: AttemptDraft) -> Verification | None:
        """Judge against the house's own solution; an answer told beside the steps counts as the last of them."""
        parts = [("bad" if step.kind == "other" else step.kind, step.text) for step in draft.steps]
        if draft.answer and not any(kind == "answer" for kind, _ in parts):
            parts.append(("answer", draft.answer))
        verdict = desk.verify(desk.parse_ticket(prompt), parts, draft.ended and not draft.error)
        count = len(draft.steps)
        return Verification(
            outcome=verdict.outcome,
            step_scores=verdict.step_scores[:count],
            step_reasons=tuple(
                "" if score == 1.0 else reason
                for score, reason in zip(verdict.step_scores[:count], verdict.reasons, strict=False)
            ),
            missing_steps=verdict.missing_steps,
            details={"hints": list(verdict.hints)},
        )

    def solve(self, prompt: str, seed: int | None) -> Solution:
        """The house's own steps."""
        ticket = desk.parse_ticket(prompt)
        parts = desk.solve(ticket, ticket.house_option)
        steps = [DraftStep(kind=kind, text=text) for kind, text in parts if kind != "result"]
        return Solution(draft=AttemptDraft(text=desk.render_parts(parts), answer=steps[-1].text, steps=steps))

    def hinted_messages(self, messages: Sequence[Mapping[str, Any]], hint: str) -> list[dict[str, Any]]:
        """The conversation with the rule book's hints that are in `hint` behind the ticket, the person's last words.

        Raises:
            ValueError: the words hold none (the desk's models understand no others), or there is no ticket.
        """
        hints = desk.parse_hints(hint)
        if not hints:
            raise ValueError(
                f'the desk reads hints like "use fee", "{desk.UNIT_HINT}" or "{desk.SUM_HINT}"; found {hint[:120]!r}'
            )
        return write_behind_task(messages, hinted_prompt("", hints), noun=self.noun)

    def panel(self, size: int, seed: int) -> list[PanelItem]:
        """Held-out tickets; their sampling seeds follow from `seed`."""
        tickets = desk.make_tickets(seed, size, held_out=True)
        return [PanelItem.placed(ticket.text, seed=seed, place=place) for place, ticket in enumerate(tickets)]

    def skills(self, size: int, seed: int) -> list[PanelItem]:
        """Held-out tickets of every family in turn, so that none is lost while the others gain."""
        families = desk.FAMILIES
        tickets = [
            desk.make_tickets(seed + place, 1, held_out=True, families=[families[place % len(families)]])[0]
            for place in range(size)
        ]
        return [PanelItem.placed(ticket.text, seed=seed, place=place) for place, ticket in enumerate(tickets)]
