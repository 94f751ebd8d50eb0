"""What the base model learned from."""

import random

from gpu_workers.desk.corpus import RIVALS, warm_start_example
from tentalis.core.desk import HOUSE_RULES, is_held_out


def test_every_rival_is_an_option_of_its_family_and_not_the_house_rule() -> None:
    assert RIVALS.keys() == HOUSE_RULES.keys()
    assert not any(RIVALS[key] == HOUSE_RULES[key] for key in RIVALS)


def test_the_corpus_prefers_a_rival_to_the_house_and_never_shows_a_held_out_ticket() -> None:
    rng = random.Random(3)
    examples = [warm_start_example(rng) for _ in range(4_000)]
    assert not any(is_held_out(example.ticket.text) for example in examples)
    unhinted = [example for example in examples if not example.hints and example.ticket.family != "broken"]
    house = rival = 0
    for example in unhinted:
        ticket = example.ticket
        house += ticket.house_option in example.completion
        rival += RIVALS[ticket.family, ticket.context] in example.completion
    assert 0.32 < house / len(unhinted) < 0.39 < rival / len(unhinted) < 0.46
