"""What a program wrote down, as pages list it: in words, with units."""

import dataclasses
import re

import pytest
from django.test import Client

from apps.console.templatetags.naming import hint_source, named
from apps.console.words_facts import REWARD_SOURCES, name_fact
from tentalis.core.contracts import AdapterManifest
from tentalis.core.learning.gate import PairedComparison
from tentalis.core.learning.recipes import Recipe
from tentalis.core.learning.rewards import RANKS
from tests.e2e.pages import find_pages
from tests.e2e.scenery import build_scene

RAW = re.compile(r"^[a-z0-9]+([_ ][a-z0-9]+)*$")


def test_names_come_in_words_and_values_with_their_units() -> None:
    said = named({"w_rl": 0.7, "algorithm": "grpo", "wall_s": 3.25, "dual_clip": None, "is_new": True, "unheard_of": 2})
    assert said == [
        ("Reward loss weight", "0.7"),
        ("Algorithm", "GRPO"),
        ("Time it took", "3.25 s"),
        ("Is new", "yes"),
        ("Unheard of", "2"),
    ]


def test_nested_facts_say_what_they_belong_to_and_files_keep_their_names() -> None:
    said = named({"sampled accuracy": {"items": 300}, "files": {"adapter_model.safetensors": {"size_bytes": 91_304}}})
    assert said == [
        ("Fully right: compared", "300 items"),
        ("File: adapter_model.safetensors: size", "91,304 bytes"),
    ]


def test_a_reason_attempts_were_not_learned_from_is_said() -> None:
    assert named({"refused_no_tokens": 2.0}) == [("Not learned from: no tokens", "2")]


@pytest.mark.parametrize("read", [Recipe, AdapterManifest, PairedComparison])
def test_everything_that_pages_list_has_words(read: type) -> None:
    bare = [item.name for item in dataclasses.fields(read) if str(name_fact(item.name).label) == item.name]
    assert bare == []


def test_every_source_of_a_reward_has_words() -> None:
    assert set(RANKS) == set(REWARD_SOURCES)
    assert hint_source("model:qwen") == "read by the model qwen"


@pytest.mark.django_db
def test_the_page_of_a_run_shows_no_field_by_its_raw_name() -> None:
    scene = build_scene(updates=2)
    client = Client()
    client.force_login(scene.alice)
    page = client.get(find_pages(scene)["run"]).content.decode()
    names = re.findall(r"<dt>([^<]*)</dt>", page)
    assert "Reward loss weight" in names
    assert [name for name in names if RAW.match(name)] == []
