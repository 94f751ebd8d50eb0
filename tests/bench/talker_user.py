"""A scripted user of the desk who only talks: reads an answer and says what people say."""

import random
from dataclasses import dataclass

from tentalis.core.desk import DeskVerdict, Ticket, solve

THANKS = (
    "Thanks!", "Thank you, that helps.", "Perfect, thanks.", "Great.", "That's right, thank you!", "ok great",
    "Exactly.", "Looks good, thanks a lot",
)  # fmt: skip
CORRECTIONS = (
    "No, that's wrong. Here we {rule}.", "That's not right: {rule}.", "Wrong. Please {rule} next time.",
    "You forgot the house rule: {rule}!", "That is not correct, you have to {rule}.",
)  # fmt: skip
BARE = ("That's not right.", "No, that is wrong.", "This is not correct!")
TELLS = ("No, it should be {answer}.", "Wrong, the right answer is {answer}.")
CHANGES = ("What are your opening hours?", "Another thing: do you ship to Norway?")


@dataclass
class User:
    """Reads answers and talks.

    Args:
        wrong: how often the opposite of what is true is said.
    """

    rng: random.Random
    wrong: float = 0.0

    def react(self, ticket: Ticket, verdict: DeskVerdict) -> str:
        """The user's next words; some change the subject."""
        is_content = (verdict.outcome == 1.0) != (self.rng.random() < self.wrong)
        if self.rng.random() < 0.1:
            return self.rng.choice(CHANGES)
        if is_content:
            return self.rng.choice(THANKS)
        option = ticket.house_option
        hints = list(verdict.hints)
        if verdict.outcome == 1.0:  # a wrong correction names a wrong rule
            option = self.rng.choice([one for one in ticket.options if one != option])
            hints = [f"use {option}"]
        draw = self.rng.random()
        if draw < 0.6 and hints:
            return self.rng.choice(CORRECTIONS).format(rule=", ".join(hints))
        if draw < 0.75:
            return self.rng.choice(TELLS).format(answer=solve(ticket, option)[-1][1])
        return ticket.text if draw < 0.9 else self.rng.choice(BARE)
