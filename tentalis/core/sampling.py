"""How an answer was sampled, as far as learning from it depends on that: stored with it, and judged."""

import math
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final, Literal

SamplingPolicy = Literal["keep", "enforce", "refuse"]
POLICIES: Final[tuple[SamplingPolicy, ...]] = ("keep", "enforce", "refuse")
NEUTRAL: Mapping[str, tuple[Any, ...]] = MappingProxyType(
    {
        "temperature": (None, 1),
        "top_p": (None, 1),
        "top_k": (None, 0, -1),
        "min_p": (None, 0),
        "typical_p": (None, 1),
        "presence_penalty": (None, 0),
        "frequency_penalty": (None, 0),
        "repetition_penalty": (None, 1),
        "logit_bias": (None, {}),
        "bad_words": (None, []),
        "allowed_token_ids": (None, []),
        "min_tokens": (None, 0),
        "use_beam_search": (None, False),
    }
)
"""What changes the distribution a token is drawn from, with the values that leave it as the model has it."""
FORMATS: Mapping[str, tuple[Any, ...]] = MappingProxyType(
    {
        "response_format": (None, "text", {"type": "text"}),
        "structured_outputs": (None, {}),
        "guided_json": (None,),
        "guided_regex": (None,),
        "guided_choice": (None,),
        "guided_grammar": (None,),
    }
)
"""What leaves only some tokens to be drawn, with the values that leave all. A caller needs it, so that no policy takes
it away; what is answered so teaches nothing: its tokens come from a distribution that the model alone does not have."""
TELLS = "tells"
"""In what is stored: `processed` where the server's log-probs are at the temperature it sampled at; `raw`: at 1."""
REMEDY = (
    "start vLLM with --logprobs-mode processed_logprobs and say so on the model server, or have the project enforce "
    "plain sampling"
)
_HELD = "tokens were drawn out of those that it allows, which the model's log-probs do not tell"
_MOST_WORDS = 40
RAW_TEACHES = f"by reward and hint only what is sampled at temperature 1, at which it tells log-probs: {REMEDY}"
"""What the answers of a server teach that tells raw log-probs."""


def describe_sampling(request: Mapping[str, Any], *, tells: str) -> dict[str, Any]:
    """What of a request as it was sent decides how its answer was sampled; what is neutral is left out.

    Args:
        tells: processed or raw, what the server's log-probs are.
    """
    return {name: request[name] for name in name_knobs(request)} | find_formats(request) | {TELLS: tells}


def find_formats(request: Mapping[str, Any]) -> dict[str, str]:
    """What of a request leaves only some tokens to be drawn, and in a word how: a schema itself is not stored."""
    asked = {name: request[name] for name, free in FORMATS.items() if name in request and request[name] not in free}
    return {name: _name_format(value) for name, value in asked.items()}


def _name_format(value: object) -> str:
    kind = value.get("type") if isinstance(value, Mapping) else value
    return kind[:_MOST_WORDS] if isinstance(kind, str) and kind else "given"


def find_sampling_fault(sampling: Mapping[str, Any]) -> str:
    """Why log-probs of an answer sampled like this are not those of a policy that could be trained; "" where they are.

    Args:
        sampling: from `describe_sampling`; {}: nobody kept it, and nothing is said against it.
    """
    others = [name for name in NEUTRAL if name != "temperature" and not _is_neutral(name, sampling.get(name))]
    if formats := find_formats(sampling):
        return f"held to {', '.join(f'{name} {kind!r}' for name, kind in formats.items())}: {_HELD}"
    if others:
        told = ", ".join(f"{name} {sampling[name]!r:.40}" for name in others)
        return f"sampled with {told}: no policy that can be trained has that distribution"
    temperature = sampling.get("temperature", 1.0)
    if not _is_number(temperature) or not 0 <= temperature < math.inf:
        return f"sampled at temperature {temperature!r:.40}, which is none"
    if temperature == 0:
        return "sampled at temperature 0: the likeliest token each time, nothing was tried"
    if temperature != 1 and sampling.get(TELLS) != "processed":
        return f"sampled at temperature {temperature:g} by a server that tells log-probs at 1: {REMEDY}"
    return ""


def read_temperature(sampling: Mapping[str, Any]) -> float:
    """At which an answer without a fault was sampled; 1 where nobody said."""
    temperature = sampling.get("temperature", 1.0)
    return float(temperature) if _is_number(temperature) and 0 < temperature < math.inf else 1.0


def name_knobs(request: Mapping[str, Any]) -> list[str]:
    """The knobs of a request that are not neutral."""
    return [name for name in NEUTRAL if name in request and not _is_neutral(name, request[name])]


def _is_neutral(name: str, value: Any) -> bool:
    for neutral in NEUTRAL[name]:  # noqa: SIM110 - asked of every request, and a generator takes twice as long
        if value == neutral and isinstance(value, bool) == isinstance(neutral, bool):
            return True
    return False


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
