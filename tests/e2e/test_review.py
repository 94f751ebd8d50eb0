"""Reviewing as people do it: by keyboard alone, two at once, through a killed tab, without scripts, on a phone."""

import re
from collections.abc import Iterator

import pytest
from django.test import Client
from django.urls import reverse
from playwright.sync_api import Browser, Page, Route, expect

from apps.feedback.claims import claim
from apps.feedback.models import Feedback, Review, ReviewDraft
from apps.tasks.models import Attempt, Step, Task
from tests.e2e.browser import Watch, open_context, sign_in
from tests.factories import make_project, make_task, make_user

pytestmark = pytest.mark.browser

STEPS = 5
# every press of a key and of a pointer that the page itself sees
COUNT = """
    window.pressed = []; window.pointed = 0;
    addEventListener("keydown", (event) => pressed.push(event.key), true);
    addEventListener("pointerdown", () => pointed++, true);
"""


# each control that a person can use, alone on an empty form: [its name, what would be sent then]
GESTURES = """() => {
    const form = document.getElementById("judgement");
    const silent = ["csrfmiddlewaretoken", "review", "active_s", "draft_version"];
    const read = () => Object.fromEntries([...new FormData(form)].filter(([name]) => !silent.includes(name)));
    const found = [];
    const tell = (one) => one.dispatchEvent(new Event("input", { bubbles: true }));
    for (const one of form.querySelectorAll("button[type=button], input:not([type=hidden]), textarea")) {
        if (one.type === "radio" && one.value === "") continue;
        if (one.name === "teaches") continue;  // says how the words are meant, and nothing without them
        form.reset();
        if (one.type === "range") { one.value = "0"; tell(one); }
        else if (one.type === "number") { one.value = "rank" in one.dataset ? "1" : "0"; tell(one); }
        else if (one.matches("textarea")) { one.value = "Charge the fee."; tell(one); }
        else one.click();
        found.push([one.id || one.textContent || one.ariaLabel, read()]);
        if (one.type === "button") one.setAttribute("aria-pressed", "false");
    }
    form.reset();
    return found;
}"""


@pytest.fixture
def opened(browser: Browser) -> Iterator[tuple[Page, Watch]]:
    context, watch = open_context(browser)
    yield context.new_page(), watch
    context.unroute_all(behavior="ignoreErrors")
    context.close()


def make_review(*, attempts: int = 1, steps: int = STEPS, prompt: str = "Say hello.") -> Review:
    project = Task.objects.all()[0].project if Task.objects.exists() else make_project("desk")
    task = make_task(project, prompt=prompt, state="in_review", group_size=attempts)
    for index in range(attempts):
        attempt = Attempt.objects.create(
            task=task, index=index, worker=task.worker, answer=f"answer {index}", score=0.42
        )
        Step.objects.bulk_create(
            Step(attempt=attempt, index=place, kind="step", text=f"Thought {place} of attempt {index}.")
            for place in range(steps)
        )
    return Review.objects.create(project=project, task=task, audience="human")


def open_review(page: Page, address: str, review: Review, name: str = "bob") -> None:
    sign_in(page, address, name)
    claim(review=review, by=make_user(name))
    page.goto(address + reverse("console:review", args=("desk", review.pk)))


def said_of(review: Review) -> list[float | None]:
    """Scores of the first attempt's steps, in order."""
    steps = review.given.get().steps.filter(attempt__index=0, step__isnull=False).order_by("step__index")
    return list(steps.values_list("score", flat=True))


def test_a_review_of_five_steps_takes_seven_keys_and_no_pointer(
    address: str, browser: Browser, opened: tuple[Page, Watch]
) -> None:
    page, watch = opened
    first, second = make_review(), make_review(prompt="The next one.")
    open_review(page, address, first)
    page.evaluate(COUNT)
    for key in ("u", "u", "u", "d", "u"):
        page.keyboard.press(key)
    assert page.evaluate("() => [pressed.length, pointed]") == [5, 0]
    page.keyboard.press("Control+Enter")
    page.wait_for_url(re.compile(f"/reviews/{second.pk}/"))
    assert said_of(first) == [1.0, 1.0, 1.0, 0.0, 1.0]
    assert watch.problems == []


def test_every_key_of_the_register_does_what_the_help_says(address: str, opened: tuple[Page, Watch]) -> None:
    page, watch = opened
    review = make_review(attempts=3)
    open_review(page, address, review)
    seen = set()

    def press(key: str) -> None:
        seen.add(key)
        page.keyboard.press(key)

    order = [
        int(value) for value in page.locator(".answer").evaluate_all("all => all.map((one) => one.dataset.attempt)")
    ]
    step = [page.locator(".judged-step").nth(place) for place in range(STEPS * 3)]
    number = [one.locator("input[type=number]") for one in step]
    press("j")
    expect(step[0]).to_be_focused()
    for key, value in zip("12345", ("0", "0.25", "0.5", "0.75", "1"), strict=True):
        press(key)
        expect(number[0]).to_have_value(value)
    press("j")
    press("k")
    expect(step[0]).to_be_focused()
    press("]")
    expect(step[STEPS]).to_be_focused()
    press("[")
    expect(step[0]).to_be_focused()
    press("j")
    press("j")
    press("w")
    expect(step[2].locator(".wrong input")).to_be_checked()
    expect(number[1]).to_have_attribute("placeholder", "1")
    expect(number[2]).to_have_attribute("placeholder", "0")
    press("b")
    expect(page.locator("[name=none_good]")).to_be_checked()
    press("b")
    expect(page.locator("[name=none_good]")).not_to_be_checked()
    press("c")
    page.keyboard.type("jump over 5 dogs?")
    expect(step[2].locator("textarea")).to_have_value("jump over 5 dogs?")
    press("Escape")
    expect(step[2]).to_be_focused()
    press("d")
    expect(number[2]).to_have_value("0")
    expect(step[3]).to_be_focused()
    press("u")
    expect(number[3]).to_have_value("1")
    press("m")
    page.keyboard.press("Shift+ArrowRight")
    page.keyboard.press("Enter")
    page.keyboard.press("Enter")
    expect(step[4].locator("[data-marks] li")).to_contain_text("wrong: “Thought 4")
    press("p")
    expect(page.locator(".answer").first.locator(".best input")).to_be_checked()
    press("r")
    press("]")
    press("r")
    press("]")
    press("r")
    expect(page.locator("[data-rank]").nth(2)).to_have_value("3")
    press("v")
    expect(page.locator("#compared table")).to_be_visible()
    press("E")
    answers = page.locator("[data-start]").evaluate_all("all => all.map((one) => one.dataset.start)")
    expect(page.locator("#id_edited_answer")).to_have_value(answers[-1])
    press("Escape")
    for key, field in (("o", "id_score"), ("t", "id_text"), ("e", "id_edited_answer")):
        press(key)
        expect(page.locator(f"#{field}")).to_be_focused()
        press("Escape")
    press("/")
    expect(page.locator("#search")).to_be_focused()
    page.locator("#id_text").fill("Name the rule.")
    press("Escape")
    press("?")
    expect(page.get_by_role("dialog")).to_be_visible()
    caps = page.locator("dialog kbd").all_text_contents()
    press("Escape")
    expect(page.get_by_role("dialog")).to_be_hidden()
    press("s")
    page.wait_for_url(re.compile("/skip/"))
    page.go_back()
    expect(page.locator("#id_text")).to_have_value("Name the rule.")
    press("Control+Enter")
    page.wait_for_url(re.compile(r"/reviews/$"))
    feedback = review.given.get()
    assert feedback.shown_order == order
    assert feedback.ranking == [[index] for index in order]
    assert feedback.active_s is not None
    spans = feedback.steps.exclude(spans=[]).get()
    assert (spans.step.index if spans.step else None, spans.spans) == (4, [[0, 9, "wrong"]])
    page.go_back()
    shown = {"Ctrl Enter": "Control+Enter", "Esc": "Escape"}
    assert {shown.get(cap, cap) for cap in caps} - seen == {"z", "g"}  # each has a test of its own
    assert watch.problems == []


@pytest.mark.parametrize("width", [390, 1280])
def test_twelve_answers_are_within_reach_at_any_width(address: str, opened: tuple[Page, Watch], width: int) -> None:
    page, watch = opened
    page.set_viewport_size({"width": width, "height": 860})
    open_review(page, address, make_review(attempts=12, steps=2))
    for _ in range(12):
        page.keyboard.press("]")
        box = page.locator(".answer:has([data-current])").bounding_box()
        assert box is not None
        assert box["x"] >= 0
        assert box["x"] + box["width"] <= width
    page.keyboard.press("p")
    expect(page.locator(".answer").last.locator(".best input")).to_be_checked()
    page.get_by_role("navigation", name="Answers").get_by_role("link", name="Answer B").click()
    expect(page.locator("#answer-B")).to_be_in_viewport()
    for name in ("Prompt", "Send feedback"):  # wherever one is
        expect(page.get_by_text(name, exact=True).first).to_be_in_viewport()
    assert page.evaluate("() => document.documentElement.scrollWidth <= document.documentElement.clientWidth")
    assert watch.problems == []


def test_the_queue_and_what_stood_behind_a_review_take_the_next_one_by_a_key(
    address: str, opened: tuple[Page, Watch]
) -> None:
    page, watch = opened
    first, second = make_review(), make_review(prompt="The next one.")
    sign_in(page, address, "bob")
    page.goto(address + reverse("console:review-list", args=("desk",)))
    page.keyboard.press("n")
    page.wait_for_url(re.compile(f"/reviews/{first.pk}/"))
    page.keyboard.press("o")
    page.keyboard.type("0")  # alone, and taken
    page.keyboard.press("Control+Enter")
    page.wait_for_url(re.compile(f"/reviews/{second.pk}/"))
    assert first.given.get().score == 0
    page.goto(address + reverse("console:review", args=("desk", first.pk)))
    page.keyboard.press("n")
    page.wait_for_url(re.compile(r"/reviews/(\?.*)?$"))  # none is free: the second is bob's own
    assert watch.problems == []


def test_every_control_of_the_review_changes_what_is_sent_and_is_taken_alone(
    address: str, opened: tuple[Page, Watch]
) -> None:
    page, watch = opened
    review = make_review(attempts=3, steps=1)
    open_review(page, address, review)
    sent = page.evaluate(GESTURES)
    assert len(sent) > 30
    project = review.project.slug
    client = Client()
    client.force_login(make_user("bob"))
    for name, data in sent:
        assert data, name
        fresh = make_review(attempts=3, steps=1)
        claim(review=fresh, by=make_user("bob"))
        address_of = reverse("console:review", args=(project, fresh.pk))
        assert client.post(address_of, data).status_code == 302, (name, data)
        assert fresh.given.exists(), name
    assert watch.problems == []


def test_keys_of_ones_own_act_are_shown_and_free_the_built_in_ones(address: str, opened: tuple[Page, Watch]) -> None:
    page, watch = opened
    review = make_review()
    open_review(page, address, review)
    page.goto(f"{address}/preferences/keys/")
    page.get_by_label("Next step", exact=True).fill("n")
    page.get_by_role("button", name="Save").click()
    expect(page.get_by_label("Next step", exact=True)).to_have_value("n")
    page.goto(f"{address}/p/{review.project.slug}/reviews/{review.pk}/")
    page.keyboard.press("j")
    expect(page.locator("[data-current]")).to_have_count(0)
    page.keyboard.press("n")
    expect(page.locator(".judged-step").first).to_be_focused()
    page.keyboard.press("?")
    caps = page.locator("dialog kbd").all_text_contents()
    assert "n" in caps
    assert "j" not in caps
    assert watch.problems == []


def test_keys_can_be_switched_off_and_never_act_in_a_text_field(address: str, opened: tuple[Page, Watch]) -> None:
    page, _ = opened
    open_review(page, address, make_review())
    page.locator("#id_text").fill("")
    page.locator("#id_text").press_sequentially("jkwups12?")
    expect(page.locator("#id_text")).to_have_value("jkwups12?")
    expect(page.locator("[data-current]")).to_have_count(0)
    page.keyboard.press("Escape")
    page.keyboard.press("?")
    page.get_by_label("Single keys act at once").uncheck()
    page.keyboard.press("Escape")
    page.keyboard.press("j")
    expect(page.locator("[data-current]")).to_have_count(0)
    assert page.locator("[data-key=skip]").get_attribute("aria-keyshortcuts") is None
    page.reload()
    page.keyboard.press("j")
    expect(page.locator("[data-current]")).to_have_count(0)


def test_two_reviewers_are_never_given_the_same_one(address: str, browser: Browser) -> None:
    reviews = {make_review(prompt=f"Number {number}").pk for number in range(4)}
    pages = []
    for name in ("alice", "bob"):
        context, _ = open_context(browser)
        pages.append(context.new_page())
        sign_in(pages[-1], address, name)
        pages[-1].goto(address + reverse("console:review-list", args=("desk",)))
    taken = []
    for page in pages:
        page.get_by_role("button", name="Take the next one").click()
    for _ in range(2):
        for page in pages:
            page.wait_for_url(re.compile(r"/reviews/\d+/"))
            taken.append(int(page.url.rstrip("/").rsplit("/", 1)[1]))
            judged = page.url
            page.keyboard.press("u")
            page.keyboard.press("Control+Enter")
            expect(page).not_to_have_url(judged)  # the word "recorded" may still be the one of the review before
            expect(page.locator(".undo")).to_contain_text("recorded")
    assert sorted(taken) == sorted(reviews)
    assert Feedback.objects.count() == len(reviews)
    for page in pages:
        page.context.close()


def test_what_is_typed_survives_a_killed_tab_and_a_server_that_is_away(
    address: str, opened: tuple[Page, Watch]
) -> None:
    page, _ = opened
    review = make_review()
    open_review(page, address, review)
    page.locator("#id_text").fill("My careful words.")
    page.keyboard.press("Escape")
    page.keyboard.press("j")
    page.keyboard.press("4")
    expect(page.locator("[data-draft-state]")).to_have_text("Draft saved")
    assert ReviewDraft.objects.get().data["text"] == "My careful words."
    path = page.url
    killed, page = page, page.context.new_page()
    killed.close(run_before_unload=False)
    page.goto(path)
    expect(page.locator("#id_text")).to_have_value("My careful words.")
    expect(page.get_by_label("Score, Answer A, step 1")).to_have_value("0.75")

    def fail(route: Route) -> None:
        route.abort()

    page.route(re.compile("/draft/"), fail)
    page.locator("#id_text").fill("Words while the server is away.")
    expect(page.locator("[data-draft-state]")).to_contain_text("The server is away")
    page.reload()
    expect(page.locator("#id_text")).to_have_value("Words while the server is away.")
    page.unroute(re.compile("/draft/"), fail)
    page.locator("#id_text").press("End")
    page.keyboard.type("!")
    expect(page.locator("[data-draft-state]")).to_have_text("Draft saved")
    assert ReviewDraft.objects.get().data["text"] == "Words while the server is away.!"


def test_a_review_that_somebody_took_over_keeps_the_text_and_says_so(address: str, opened: tuple[Page, Watch]) -> None:
    page, _ = opened
    review = make_review()
    open_review(page, address, review)
    page.locator("#id_text").fill("My careful words.")
    Review.objects.filter(pk=review.pk).update(claimed_by=make_user("alice"))
    page.get_by_role("button", name="Send feedback").click()
    expect(page.get_by_role("alert").first).to_contain_text("alice has it")
    expect(page.locator("#id_text")).to_have_value("My careful words.")
    assert not Feedback.objects.exists()


def test_the_last_judgement_is_undone_with_one_key_and_given_back_with_another(
    address: str, opened: tuple[Page, Watch]
) -> None:
    page, watch = opened
    first, second = make_review(), make_review(prompt="The next one.")
    open_review(page, address, first)
    page.locator("#id_text").fill("Too hasty.")
    page.keyboard.press("Control+Enter")
    page.wait_for_url(re.compile(f"/reviews/{second.pk}/"))
    expect(page.locator("[data-countdown]")).to_contain_text("s)")
    page.keyboard.press("z")
    page.wait_for_url(re.compile(f"/reviews/{first.pk}/"))
    expect(page.locator("#id_text")).to_have_value("Too hasty.")
    first.refresh_from_db()
    assert (first.state, first.claimed_by) == ("open", make_user("bob"))
    assert not first.given.filter(retracted_at__isnull=True).exists()
    page.keyboard.press("g")
    page.wait_for_url(re.compile(r"/reviews/$"))
    first.refresh_from_db()
    assert first.claimed_by is None
    assert watch.problems == []


def test_words_that_settled_are_previewed_and_only_the_button_asks_a_model(
    address: str, opened: tuple[Page, Watch]
) -> None:
    page, watch = opened
    open_review(page, address, make_review())
    sent: list[str] = []
    page.on("request", lambda one: sent.append(one.post_data or "") if "/feedback/preview/" in one.url else None)
    page.get_by_label("The answer as it should have been").press_sequentially("answer 7", delay=10)
    expect(page.locator("#preview")).to_contain_text("A right answer is: answer 7")
    page.get_by_label("The answer as it should have been").press_sequentially("8")
    page.keyboard.press("Backspace")
    page.get_by_role("button", name="Preview").click()
    expect(page.locator("#preview ins")).to_have_text("7")
    assert [("preview=1" in data) for data in sent] == [False, True]
    assert watch.problems == []


def test_without_scripts_answers_are_ranked_and_a_preview_is_shown(address: str, browser: Browser) -> None:
    review = make_review(attempts=3)
    context, _ = open_context(browser, java_script_enabled=False)
    page = context.new_page()
    open_review(page, address, review)
    for rank, letter in enumerate("BCA", start=1):
        page.get_by_label(f"Rank: Answer {letter}").fill(str(rank))
    page.get_by_label("First wrong step: Answer A, step 3").check()
    page.get_by_label("Comment, Answer A, step 3").fill("Here it goes wrong.")
    page.get_by_label("The answer as it should have been").fill("answer 7")
    page.get_by_role("button", name="Preview").click()
    expect(page.locator("#preview")).to_contain_text("Here it goes wrong.")
    expect(page.locator("#preview ins")).to_have_text("7")
    page.get_by_role("button", name="Send feedback").click()
    expect(page.locator(".undo")).to_contain_text("recorded")
    feedback = review.given.get()
    a, b, c = feedback.shown_order
    assert feedback.ranking == [[b], [c], [a]]
    words = (
        feedback.steps.filter(attempt__index=a).order_by("step__index").values_list("step__index", "score", "comment")
    )
    assert list(words) == [(0, 1.0, ""), (1, 1.0, ""), (2, 0.0, "Here it goes wrong.")]
    context.close()


def test_on_a_narrow_phone_everything_can_be_reached_and_judged(address: str, opened: tuple[Page, Watch]) -> None:
    page, watch = opened
    page.set_viewport_size({"width": 360, "height": 740})
    review = make_review(attempts=2)
    open_review(page, address, review)
    assert page.evaluate("() => document.documentElement.scrollWidth - innerWidth") <= 0
    page.keyboard.press("j")
    expect(page.locator(".judged-step").first).to_be_focused()
    page.get_by_role("link", name="Answer B").click()
    fold = page.locator("#answer-B summary")
    fold.click()
    page.get_by_role("button", name="Thumbs up, Answer B, step 1").click()
    page.get_by_label("Score, Answer B, step 3").fill("7")
    fold.click()
    page.get_by_role("button", name="Send feedback").click()  # what is wrong is unfolded
    page.get_by_label("Score, Answer B, step 3").fill("")
    page.get_by_label("Slider, Answer B, step 2").fill("0.3")
    expect(page.get_by_label("Score, Answer B, step 2")).to_have_value("0.3")
    page.get_by_label("Both are equally good").check()
    page.get_by_role("button", name="Send feedback").click()
    expect(page.locator(".undo")).to_contain_text("recorded")
    assert [len(group) for group in review.given.get().ranking] == [2]
    assert watch.problems == []
