"""A scripted user of the desk who only talks: reads an answer and says what people say."""

import random
from dataclasses import dataclass
from typing import Final, NamedTuple

from tentalis.core.desk import SUM_HINT, UNIT_HINT, DeskVerdict, Ticket, solve


@dataclass(frozen=True)
class Wording:
    """How somebody talks.

    Args:
        corrections: hold {rule}, the rule book's hints; they are said in one sentence. Without any each mistake has a
            sentence of its own: options hold {option}, units and sums speak of those.
        tells: hold {answer}. bare: of corrections that do not say what is right. changes: of the subject.
    """

    thanks: tuple[str, ...]
    bare: tuple[str, ...]
    tells: tuple[str, ...]
    changes: tuple[str, ...]
    corrections: tuple[str, ...] = ()
    options: tuple[str, ...] = ()
    units: tuple[str, ...] = ()
    sums: tuple[str, ...] = ()


KNOWN: Final = Wording(
    thanks=(
        "Thanks!", "Thank you, that helps.", "Perfect, thanks.", "Great.", "That's right, thank you!", "ok great",
        "Exactly.", "Looks good, thanks a lot",
    ),
    corrections=(
        "No, that's wrong. Here we {rule}.", "That's not right: {rule}.", "Wrong. Please {rule} next time.",
        "You forgot the house rule: {rule}!", "That is not correct, you have to {rule}.",
    ),
    bare=("That's not right.", "No, that is wrong.", "This is not correct!"),
    tells=("No, it should be {answer}.", "Wrong, the right answer is {answer}."),
    changes=("What are your opening hours?", "Another thing: do you ship to Norway?"),
)  # fmt: skip
"""In phrases that the rules know, with the rule book's own words for what is right."""
TAUGHT: Final = Wording(
    thanks=(
        "Sounds good.", "Done.", "That will do.", "Fine by me.", "Super.", "That's what I needed.", "All clear now.",
        "You nailed it.", "The client is happy with it.", "I pass it on like this.", "Yes, I have the same.",
        "Makes sense.", "Agreed.", "Good one, I send it.", "Happy with that.", "Fine, I'll send this to them.",
        "Yes.", "Yep, that's it.", "I have the same number here.", "Same here.", "It fits.", "That's fine.",
        "All right then.", "All fine.", "Good, I book it.", "Just as I would have said it.", "I'd say the same.",
        "Settled then.", "Love it.", "Lovely.", "Cool, booked.", "Okay, sent.", "The boss agreed.", "I agree.",
        "Nothing to add.", "Couldn't be better.", "Very clear.", "That helps a lot.", "Clear, and quick too.",
        "As expected.", "This is it.", "OK, done.", "I'll take it like that.", "Fits with what I have.", ":)",
        "Passed on.", "I am sending it like this.", "Sure, that works.", "What I thought.", "Total agreement.",
    ),
    options=(
        "The rule says {option}.", "We take {option} with those.", "That has to be done as {option}.",
        "In our house {option} applies.", "Choose {option} next time.", "One has to go for {option} there.",
        "It is {option} for such a client.", "Here it is {option}.", "I would have taken {option}.",
        "Our way is {option}.", "For this kind {option} is the rule.", "Please do {option} in this case.",
        "{option}, that's how we handle it.", "You should go with {option}.", "In this shop we do {option}.",
        "This is a case for {option}.", "{option} please.", "Better {option}.", "With such clients always {option}.",
    ),
    units=(
        "The unit is missing.", "You left out EUR.", "Write EUR behind the number.", "No currency behind it.",
        "There is no currency.", "A number without EUR says nothing.", "EUR should stand there.",
        "Which currency is that?", "The currency is missing.",
    ),
    sums=(
        "Count again.", "That does not add up.", "The sum is off.", "You miscalculated.", "Check your calculation.",
        "Add it up again, please.", "Wrong total.", "The arithmetic is wrong.", "Please do the sum once more.",
    ),
    bare=(
        "That can't be.", "I doubt that.", "The client complained about this.", "Not what we do.", "This won't do.",
        "I don't believe it.", "Doubtful.", "Something is missing.", "They sent it back to us.", "We don't do that.",
        "We cannot do this.", "I don't think so.", "Hm, really?", "That isn't it.", "Nice try, but something's off.",
        "The client didn't like it at all.", "Bad idea.", "I have doubts about it.", "You can't say it like that.",
    ),
    tells=(
        "The client was told {answer}.", "I have {answer} here.", "According to the list it is {answer}.",
        "I make it {answer}.", "We promised {answer}.", "The calculator gives {answer}.", "My number is {answer}.",
    ),
    changes=(
        "When do you open?", "Can I ask something else?", "Who is on duty today?", "By the way, the lamp is broken.",
        "Next one.", "Let us talk about the other client.", "Do you have a phone?", "Is Bob there today?",
        "Do you sell lamps?", "What's the weather like?", "I must call my sister.", "Remind me of the meeting.",
        "Let us move to the next.", "Is there coffee?", "Where are you?", "One more thing.", "Call the office.",
        "Are you open on Sunday?", "I have to go now.", "Other topic.", "Is the shop full today?",
    ),
)  # fmt: skip
"""What the bench's judge learnt to read from."""
HELD_OUT: Final = Wording(
    thanks=(
        "Sounds fine to me.", "\N{THUMBS UP SIGN}", "That is what I'd have said.", "Good to go, sending it.",
        "Yes, that fits.", "Lovely, passing it on.", "That settles it.", "All good here.", "Sweet.",
        "Agreed, I book it like this.", "Client's happy.", "Makes total sense.", "Same as mine.", "Done and dusted.",
    ),
    options=(
        "Around here it is {option}.", "I'd have gone for {option}.", "Our shop does {option} in such a case.",
        "Take {option} for these.", "{option} please, that is how we do it.",
        "With this kind of client we go {option}.", "Since May the rule is {option}.",
    ),
    units=("EUR is missing.", "The currency isn't there.", "Without EUR nobody knows what that is."),
    sums=("Please add that up once more.", "Your arithmetic is off.", "The total does not add up."),
    bare=(
        "I don't think that's it.", "The client sent it back.", "We can't do it like that.", "Hm, I have my doubts.",
        "Good try, there's something missing.",
    ),
    tells=("The client was promised {answer}.", "I get {answer}.", "My calculator says {answer}."),
    changes=("Do you sell gift cards?", "Is Eve in today?", "Moving on.", "Remind me to call the bank."),
)  # fmt: skip
"""What neither the rules nor the judge have seen."""
THANKS: Final = KNOWN.thanks


class Spoken(NamedTuple):
    """A user's words, and what they mean by them: whether they are content; None: nothing of the answer."""

    words: str
    is_content: bool | None


@dataclass
class User:
    """Reads answers and talks.

    Args:
        wrong: how often the opposite of what is true is said.
    """

    rng: random.Random
    wrong: float = 0.0
    wording: Wording = KNOWN

    def react(self, ticket: Ticket, verdict: DeskVerdict) -> str:
        """The user's next words; some change the subject."""
        return self.speak(ticket, verdict).words

    def speak(self, ticket: Ticket, verdict: DeskVerdict) -> Spoken:
        is_content = (verdict.outcome == 1.0) != (self.rng.random() < self.wrong)
        if self.rng.random() < 0.1:
            return Spoken(self.rng.choice(self.wording.changes), None)
        if is_content:
            return Spoken(self.rng.choice(self.wording.thanks), True)
        option = ticket.house_option
        hints = list(verdict.hints)
        if verdict.outcome == 1.0:  # a wrong correction names a wrong rule
            option = self.rng.choice([one for one in ticket.options if one != option])
            hints = [f"use {option}"]
        draw = self.rng.random()
        if draw < 0.6 and hints:
            return Spoken(self._correct(hints, option), False)
        if draw < 0.75:
            return Spoken(self.rng.choice(self.wording.tells).format(answer=solve(ticket, option)[-1][1]), False)
        return Spoken(ticket.text if draw < 0.9 else self.rng.choice(self.wording.bare), False)

    def _correct(self, hints: list[str], option: str) -> str:
        if self.wording.corrections:
            return self.rng.choice(self.wording.corrections).format(rule=", ".join(hints))
        says = {UNIT_HINT: self.wording.units, SUM_HINT: self.wording.sums}
        return " ".join(self.rng.choice(says.get(hint, self.wording.options)).format(option=option) for hint in hints)
