"""When to train, as its owner sets and sees it: hours, a calendar as text or file, quotas and what is used of them."""

import re
from datetime import timedelta

import pytest
from django.core.exceptions import ValidationError
from django.core.files.uploadedfile import SimpleUploadedFile
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from apps.accounts.models import Member, Project, Role
from apps.console.durations import DurationField, read_seconds, say_about, say_seconds
from apps.training.models import TrainingRun
from tests.apps.console.test_house import as_typed
from tests.factories import make_user, make_worker

pytestmark = pytest.mark.django_db
SECTION = "training_policy"


@pytest.fixture
def client(project: Project) -> Client:
    user = make_user("olga")
    Member.objects.create(project=project, user=user, role=Role.OWNER)
    client = Client()
    client.force_login(user)
    return client


def read_section(client: Client, section: str) -> str:
    return client.get(reverse("console:settings", args=("shop",)), {"section": section}).content.decode()


def read_card(client: Client) -> str:
    """The words of the card, without tags."""
    page = read_section(client, SECTION)
    found = re.search(rf'<section class="card" id="{SECTION}".*?</section>', page, flags=re.DOTALL)
    assert found is not None
    return " ".join(re.sub(r"<[^>]+>", " ", found[0]).split())


def write_calendar(*, summary: str, begins_in: timedelta, lasts: timedelta) -> str:
    begin = timezone.now() + begins_in
    stamps = [f"{at:%Y%m%dT%H%M%SZ}" for at in (begin, begin + lasts)]
    return "\r\n".join(
        [
            *("BEGIN:VCALENDAR", "VERSION:2.0", "PRODID:-//shop//en", "BEGIN:VEVENT", "UID:1"),
            *(f"DTSTART:{stamps[0]}", f"DTEND:{stamps[1]}", f"SUMMARY:{summary}", "END:VEVENT", "END:VCALENDAR", ""),
        ]
    )


def send(client: Client, project: Project, **changed: object) -> int:
    typed = as_typed(project, SECTION) | {f"{SECTION}-{name}": value for name, value in changed.items()}
    return client.post(reverse("console:settings", args=("shop",)), typed).status_code


def test_a_project_without_a_timetable_is_open_and_has_no_limits(client: Client, project: Project) -> None:
    said = read_card(client)
    assert "open now A full batch is trained as soon as a training machine is free." in said
    assert "Runs begun in them 0 no limit" in said
    assert "The calendar says" not in said


def test_a_calendar_comes_as_a_file_and_says_what_runs_now(client: Client, project: Project) -> None:
    text = write_calendar(summary="Release night", begins_in=timedelta(hours=-1), lasts=timedelta(hours=3))
    assert send(client, project, calendar_file=SimpleUploadedFile("ours.ics", text.encode("utf-8-sig"))) == 302
    project.refresh_from_db()
    assert set(project.training_policy) == {"calendar"}
    assert project.training_policy["calendar"].splitlines() == text.splitlines()
    page = read_section(client, SECTION)
    assert "When to train: saved." in page
    assert "closed now Its calendar says Release night until" in read_card(client)


def test_the_next_event_is_named_where_none_runs(client: Client, project: Project) -> None:
    text = write_calendar(summary="Night shift", begins_in=timedelta(hours=5), lasts=timedelta(hours=3))
    project.training_policy = {"calendar": text, "calendar_means": "open"}
    project.save(update_fields=["training_policy"])
    said = read_card(client)
    assert "closed now Its calendar has no training time now, which begins" in said
    assert "no event now; the next begins" in said


@pytest.mark.parametrize(
    ("content", "wanted"),
    [(b"\xff\xfe\x00", "found a byte that is none at place 0"), (b"hello", "Wanted an iCalendar text (RFC 5545)")],
)
def test_a_file_that_is_no_calendar_is_refused_with_what_was_found(
    client: Client, project: Project, content: bytes, wanted: str
) -> None:
    file = SimpleUploadedFile("ours.ics", content)
    answer = client.post(
        reverse("console:settings", args=("shop",)), as_typed(project, SECTION) | {f"{SECTION}-calendar_file": file}
    )
    assert answer.status_code == 400
    assert wanted in answer.content.decode()
    project.refresh_from_db()
    assert project.training_policy == {}


def test_what_is_used_stands_beside_the_quota_and_says_that_runs_wait(client: Client, project: Project) -> None:
    worker, now = make_worker(project, name="clerk"), timezone.now()
    values = {"project": project, "worker": worker, "recipe": {}, "recipe_hash": "0" * 64, "attempt": 1}
    values |= {"purpose": "reward_model"}
    began = now - timedelta(minutes=3)
    ended = {"state": "succeeded", "begun_at": began, "started_at": began, "finished_at": now - timedelta(minutes=2)}
    TrainingRun.objects.create(**values, **ended)
    TrainingRun.objects.create(**values, state="queued")
    project.training_policy = {"gpu_s_per_day": 50, "runs_per_day": 9}
    project.save(update_fields=["training_policy"])
    said = read_card(client)
    assert "used up Runs wait until the last 24 hours hold less." in said
    assert "Trained in the last 24 hours 1 min of 50 s Runs begun in them 1 of 9 Runs that wait 1" in said
    project.training_policy = {"gpu_s_per_day": 500, "runs_per_day": 9}
    project.save(update_fields=["training_policy"])
    assert "open now" in read_card(client)


def test_what_nobody_set_is_folded_away_and_what_somebody_set_names_the_usual(client: Client, project: Project) -> None:
    page = read_section(client, "recipe")
    assert "<summary>Optimiser</summary>" in page
    project.recipe = {"beta1": 0.8}
    project.save(update_fields=["recipe"])
    page = read_section(client, "recipe")
    assert "<summary>Optimiser</summary>" not in page
    assert "<summary>Hints and voices</summary>" in page
    assert "Usually: 0.9." in page


def test_only_the_fields_of_the_chosen_algorithm_are_shown_and_those_hidden_keep_their_defaults(
    client: Client, project: Project
) -> None:
    address = reverse("console:settings", args=("shop",))

    def shown(recipe: dict[str, object]) -> set[str]:
        project.recipe = recipe
        project.save(update_fields=["recipe"])
        return set(re.findall(r'name="recipe-(\w+)"', read_section(client, "recipe")))

    usual = shown({})
    assert {"clip_low", "dual_clip", "std_floor", "opd_clip"} <= usual
    assert not {"beta", "kto_desirable", "sft_temperature", "opd_top_k", "refill"} & usual
    assert "nll_coef" in shown({"nll_coef": 0.5}), "what somebody set is shown"
    assert "opd_top_k" in shown({"opd_mode": "top_k"})
    preferring = shown({"algorithm": "dpo"})
    assert {"beta", "nll_coef", "held_out_share"} <= preferring
    assert not {"clip_low", "opd_mode", "kto_desirable"} & preferring
    sent = {"section": "recipe", "recipe-algorithm": "kto", "recipe-learning_rate": "0.001"}
    sent |= {"recipe-target_modules": "q_proj", "recipe-precision": "float32", "recipe-schedule": "constant"}
    assert client.post(address, sent).status_code == 302
    project.refresh_from_db()
    assert project.recipe == {"algorithm": "kto", "learning_rate": 0.001, "target_modules": ["q_proj"]}
    assert "cut_answers_teach" in shown({})
    assert (
        client.post(address, sent | {"recipe-algorithm": "grpo", "recipe-cut_answers_teach-asked": "1"}).status_code
        == 302
    )
    project.refresh_from_db()
    assert project.recipe["cut_answers_teach"] is False, "a box that was on the page and is not ticked"


@pytest.mark.parametrize(
    ("text", "seconds", "said"),
    [
        *(("0", 0, "0 s"), ("90 s", 90, "1 min 30 s"), ("2 min", 120, "2 min"), ("1.5 h", 5_400, "1 h 30 min")),
        *(
            ("36 h", 129_600, "1 day 12 h"),
            ("3days", 259_200, "3 days"),
            ("0,5 s", 0.5, "0.5 s"),
            ("1 day 1 s", 86_401, "1 day 1 s"),
        ),
    ],
)
def test_a_time_is_written_with_its_unit_and_read_back(text: str, seconds: float, said: str) -> None:
    assert DurationField(required=False).clean(text) == seconds
    assert (say_seconds(seconds), read_seconds(say_seconds(seconds))) == (said, seconds)


@pytest.mark.parametrize(
    ("seconds", "said"),
    [
        *((None, "–"), (0, "0 s"), (0.0124, "12 ms"), (0.4, "400 ms"), (12.34, "12.3 s"), (59.99, "59.9 s")),
        *((60, "1 min"), (3599, "59 min 59 s"), (3600, "1 h"), (5400, "1 h 30 min"), (5401, "1 h 30 min")),
        *((86_400, "1 day"), (86_430, "1 day"), (200_000, "2 days 7 h")),
    ],
)
def test_pages_say_a_length_of_time_in_its_two_largest_units(seconds: float | None, said: str) -> None:
    assert say_about(seconds) == said


@pytest.mark.parametrize("text", ["24", "a day", "3 lightyears", "-1 h", "h 3", "1 h 3"])
def test_a_time_without_its_unit_is_refused(text: str) -> None:
    with pytest.raises(ValidationError, match="a time with its unit"):
        DurationField().clean(text)


def test_times_of_the_settings_are_shown_and_taken_in_peoples_units(client: Client, project: Project) -> None:
    address = reverse("console:settings", args=("shop",))
    page = read_section(client, "review_policy")
    assert re.search(r'name="review_policy-patience_s" value="1 day"', page)
    sent = {"section": "review_policy", "review_policy-who": "human", "review_policy-on_timeout": "fail"}
    sent |= {"review_policy-environments": "desk", "review_policy-patience_s": "36 h"}
    assert client.post(address, sent).status_code == 302, client.post(address, sent).content.decode()
    project.refresh_from_db()
    assert project.review_policy["patience_s"] == 129_600
    refused = client.post(address, sent | {"review_policy-patience_s": "36"})
    assert (refused.status_code, "such as 30 min, 12 h or 3 days, found 36" in refused.content.decode()) == (400, True)
    for label in ("Chat", "Ticket desk"):
        assert label in page
    assert "Swe" not in page


def test_who_asks_why_nothing_trains_is_told_of_closed_hours_too(client: Client, project: Project) -> None:
    address = reverse("console:blockers", args=("shop",))
    assert "open now" in client.get(address).content.decode()
    text = write_calendar(summary="Release night", begins_in=timedelta(hours=-1), lasts=timedelta(hours=3))
    project.training_policy = {"calendar": text}
    project.save(update_fields=["training_policy"])
    assert "Its calendar says Release night until" in client.get(address).content.decode()
