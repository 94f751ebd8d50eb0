"""What every program here is told, and the tool that it offers."""

import os
import sys

ROOT, KEY, MODEL = (os.environ[f"CLIENT_{name}"] for name in ("ROOT", "KEY", "MODEL"))
V1 = f"{ROOT}/v1"
QUESTION = "What is the weather in Zürich?"
CITY = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
FUNCTION = {"name": "weather", "description": "The sky over a city.", "parameters": CITY}


def weather(city: str) -> str:
    """The sky over a city.

    Args:
        city: its name.
    """
    return f"sun over {city}"


def say(text: object) -> None:
    sys.stdout.write(f"{text}\n")
