"""Recorded shapes of traffic, as clients send it: what programs ask, and people among them.

Each case is one conversation (or several at once) as a generator of requests; it is sent the answers, and returns what
people said of which answer. The shapes are those of the clients' own code: their headers, their prompts' beginnings,
how they repeat an answer, write a tool's result, try again. What they say, to whom, how often and how fast is drawn.
"""

from tests.apps.conversations.traffic.people import AMONG_OTHERS, PEOPLE
from tests.apps.conversations.traffic.programs import MACHINES
from tests.apps.conversations.traffic.sending import Answer, Case, Json, Kinds, Send

__all__ = ["AMONG_OTHERS", "MACHINES", "PEOPLE", "Answer", "Case", "Json", "Kinds", "Send"]
