# mypy: ignore-errors
"""Instructor: a structure by tools, whole and as it is streamed, from OpenAI's and Anthropic's clients."""

import instructor
from anthropic import Anthropic
from openai import OpenAI
from pydantic import BaseModel
from told import KEY, MODEL, QUESTION, ROOT, V1, say


class Weather(BaseModel):
    city: str


ASKED = {"model": MODEL, "response_model": Weather, "messages": [{"role": "user", "content": QUESTION}]}
openai = instructor.from_openai(OpenAI(base_url=V1, api_key=KEY), mode=instructor.Mode.TOOLS)
say(openai.chat.completions.create(**ASKED).city)
say(list(openai.chat.completions.create_partial(**ASKED))[-1].city)
anthropic = instructor.from_anthropic(Anthropic(base_url=ROOT, api_key=KEY))
say(anthropic.messages.create(max_tokens=99, **ASKED).city)
