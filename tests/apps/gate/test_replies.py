"""Replies that a demonstration shows stand on the adapter's page too, until somebody is forgotten."""

from pathlib import Path

import pytest
from django.urls import reverse

from apps.accounts.models import User
from apps.adapters.serving import load
from apps.console.selectors.replies import find_replies
from apps.erasure.records import forget_person
from apps.evals.models import Item, ItemTry, Taskset
from apps.pipeline.demonstration import OwnItems, Stage, measure_report
from apps.workers.models import Worker
from tentalis.core.near_duplicates import hash_words, list_bands
from tests.apps.adapters.desk_adapters import make_served
from tests.apps.console.builders import sign_in
from tests.apps.gate.conftest import hold_out
from tests.factories import make_user

pytestmark = pytest.mark.django_db


def test_replies_before_and_after_are_told_and_kept_for_the_page(clerk: Worker, store: Path, alice: User) -> None:
    hold_out(clerk.project, 40)
    Item.objects.create(
        taskset=Taskset.objects.get(), split="train", prompt="Double the number 99", reference="198",
        content_hash=hash_words("99"), bands=list_bands("99"),
    )  # fmt: skip
    adapter = make_served(clerk, 1, store)
    load(adapter)
    ground, stages = OwnItems(clerk), list[Stage]()
    assert [row.prompt for row in ground.draw(0, seed=1)] == [row.prompt for row in ground.draw(1, seed=1)]
    before, after = (measure_report(ground, one, watch=stages.append) for one in (None, adapter))
    numbers = [int(prompt.split()[-1]) for prompt, _ in before.replies]
    assert [text for _, text in before.replies] == [str(2 * number + number % 2) for number in numbers]
    assert [text for _, text in after.replies] == [str(2 * number) for number in numbers]
    assert stages[0] == Stage("held-out tasks, the base model, sampled", 0, 40)
    assert [stage.done for stage in stages[:3]] == [0, 16, 32]
    assert (before.sampled, after.passed) == (0.5, 1.0)
    shown = find_replies(adapter)
    assert [(one.prompt, one.before, one.after) for one in shown[:3]] == [
        (prompt, first, last) for (prompt, first), (_, last) in zip(before.replies, after.replies, strict=True)
    ]
    assert [(one.was, one.now) for one in shown[:3]] == [(float(number % 2 == 0), 1.0) for number in numbers]
    page = sign_in(alice).get(reverse("console:adapter", args=(clerk.project.slug, adapter.pk))).content.decode()
    assert "What it replies" in page
    assert f"Double the number {numbers[0]}" in page
    forget_person(project=clerk.project, by=make_user("root", is_superuser=True), text="somebody of that name")
    assert not ItemTry.objects.exclude(answer="").exists()
    assert find_replies(adapter) == ()
