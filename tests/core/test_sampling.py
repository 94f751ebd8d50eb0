"""Which answers may be learnt from, by how they were sampled."""

import pytest

from tentalis.core.sampling import describe_sampling, find_sampling_fault, name_knobs

SCHEMA = {"type": "json_schema", "json_schema": {"name": "order", "schema": {"type": "object"}}}


@pytest.mark.parametrize(
    ("request_fields", "told"),
    [
        ({"response_format": SCHEMA}, {"response_format": "json_schema"}),
        ({"response_format": {"type": "json_object"}}, {"response_format": "json_object"}),
        ({"guided_regex": "a+"}, {"guided_regex": "a+"}),
        ({"structured_outputs": {"choice": ["a"]}}, {"structured_outputs": "given"}),
    ],
)
def test_an_answer_held_to_a_format_teaches_nothing_and_no_policy_takes_the_format_away(
    request_fields: dict[str, object], told: dict[str, str]
) -> None:
    described = describe_sampling(request_fields, tells="processed")
    assert described == {**told, "tells": "processed"}
    assert describe_sampling(described, tells="processed") == described, "what is stored says the same again"
    assert find_sampling_fault(described).startswith(f"held to {next(iter(told))}")
    assert name_knobs(request_fields) == []


@pytest.mark.parametrize("free", [{}, {"response_format": None}, {"response_format": {"type": "text"}}])
def test_text_as_the_model_writes_it_is_held_to_nothing(free: dict[str, object]) -> None:
    described = describe_sampling(free, tells="processed")
    assert described == {"tells": "processed"}
    assert find_sampling_fault(described) == ""
