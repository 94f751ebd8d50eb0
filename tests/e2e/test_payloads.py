"""Nothing anybody writes does anything: every payload on every surface, with the content policy and without it."""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

import pytest
from django.conf import settings
from django.test import override_settings
from django.urls import reverse
from playwright.sync_api import Browser, BrowserContext, Dialog, Page, Response

from apps.accounts.models import Project
from apps.audit.kinds import Kind
from apps.audit.services import record
from apps.console.selectors.exchange import keep_spelling
from apps.conversations.models import Turn, TurnExchange, TurnSignal
from apps.feedback.claims import claim
from apps.feedback.models import Feedback, Hint, Review, StepFeedback
from apps.inference.models import Exchange, Session
from apps.scoring.models import StepScore
from apps.tasks.models import Attempt, Step, Task
from apps.webhooks.models import Delivery, Webhook
from apps.workers.models import Worker
from tentalis.core.packing import pack_bools, pack_float32, pack_int32
from tests.e2e.browser import Watch, open_context, sign_in
from tests.e2e.payloads import OUT, PAYLOADS
from tests.factories import make_project, make_task, make_user, make_worker

pytestmark = [pytest.mark.browser, pytest.mark.slow]

ATTEMPTS, TOGETHER = 8, 4
# without the policy's header htmx does not know the new nonce, and drops the page's own live updates too
OWN_REFRESH = "hx-csp] blocked <div#"
LISTEN = """
    window.hits = [];
    window.__hit = (n) => { window.hits.push(n); return n; };
    for (const name of ["alert", "confirm", "prompt", "open", "print"]) window[name] = () => window.hits.push(name);
"""
# whatever waits for a gesture gets it
PROVOKE = """() => {
    const kinds = ["mouseover", "mouseenter", "pointerenter", "focusin", "focus", "toggle", "animationstart", "load",
        "error", "copy", "wheel", "keydown", "input", "transitionend", "htmx:load", "live"];
    const inside = document.querySelectorAll("main :is(.words, .facts, .box, .why, td, li, p, dd) *");
    for (const one of [...inside].slice(0, 4000)) for (const kind of kinds) one.dispatchEvent(new Event(kind));
    for (const one of document.querySelectorAll("main :is(.words, .box) :is(b, p, x, div, form)")) one.click?.();
    return inside.length;
}"""
# elements and attributes that only somebody's text can have brought
FOREIGN = """() => {
    const found = [];
    const nonce = document.querySelector("script[nonce]").nonce;
    const tags = "script:not([src^='/static/']), iframe, object, embed, base, meta[http-equiv], style, frame, " +
        "frameset, marquee, template, math, portal, fencedframe, noembed, xmp, plaintext, listing, audio, video, " +
        "source, track, foreignObject, animate, set, use:not([href='#thumb']), " +
        "link:not([href^='/static/']), font, keygen, applet";
    for (const one of document.querySelectorAll(tags)) found.push(one.outerHTML.slice(0, 150));
    for (const one of document.querySelectorAll("*")) for (const {name, value} of one.attributes) {
        const planted = /^(on|x-|data-hx|v-|ng-|@|:|style$|formaction$|srcdoc$|background$|xlink|is$)/.test(name)
            && !(name === "style" && !/planted|fixed|__hit/.test(value))
            || name.startsWith("hx-") && one.closest("[hx-nonce]")?.getAttribute("hx-nonce") !== nonce
            || /^(href|src|action)$/.test(name) && /^\\s*(javascript|data:text|data:image\\/svg|vbscript)/i.test(value)
            || name === "src" && /planted/.test(value);
        if (planted) found.push(`${name}=${value}`.slice(0, 150));
    }
    return found;
}"""


@dataclass
class Trap:
    """What a page did that it must not."""

    page: Page
    watch: Watch
    address: str
    sent: list[str] = field(default_factory=list)
    dialogs: list[str] = field(default_factory=list)
    ignored: str = "nothing is ignored"

    def hear(self, url: str) -> None:
        if "planted" in url or not url.startswith((self.address, "data:", self.address.replace("http", "ws"))):
            self.sent.append(url)

    def refuse(self, dialog: Dialog) -> None:
        self.dialogs.append(dialog.message)
        dialog.dismiss()

    def check(self, name: str) -> None:
        self.page.evaluate(PROVOKE)
        assert self.page.evaluate("() => window.hits") == [], name
        assert self.page.evaluate(FOREIGN) == [], name
        assert self.sent == [], name
        assert self.dialogs == [], name
        assert [problem for problem in self.watch.problems if self.ignored not in problem] == [], name


def open_trap(browser: Browser, address: str) -> tuple[BrowserContext, Trap]:
    context, watch = open_context(browser)
    context.add_init_script(LISTEN)
    page = context.new_page()
    trap = Trap(page, watch, address)
    page.on("request", lambda request: trap.hear(request.url))
    page.on("dialog", trap.refuse)
    return context, trap


@pytest.fixture
def surfaces(database_beside_a_loop: None, transactional_db: None) -> dict[str, str]:
    """Every payload everywhere somebody's words are kept; name of a page -> its path."""
    project = make_project("desk", rubric="\n".join(PAYLOADS[:60]), constitution="\n".join(PAYLOADS[60:]))
    Project.objects.filter(pk=project.pk).update(name=PAYLOADS[0])
    project.refresh_from_db()
    alice = make_user("alice")
    worker = make_worker(project)
    # the services allow no such name; a row that came another way must not matter
    Worker.objects.filter(pk=worker.pk).update(name="<img src=x onerror=__hit(1)>\u202e")
    worker.refresh_from_db()
    judged = make_payload_task(worker, state="done")
    open_task = make_payload_task(worker, state="in_review")
    review = Review.objects.create(project=project, task=open_task, audience="human", reason=PAYLOADS[27][:300])
    feedback = add_judgement(judged)
    for place, payload in enumerate(PAYLOADS[:24]):
        task = make_task(project, worker, prompt=PAYLOADS[-1 - place], state="in_review", failure=payload)
        Review.objects.create(project=project, task=task, audience="human", reason=payload[:300])
    for place in range(0, len(PAYLOADS), 15):
        payload_of = {f"k{index}": text[:2000] for index, text in enumerate(PAYLOADS[place : place + 15])}
        record(
            Kind.TASK_DONE, subject=judged, by=f"user:{PAYLOADS[place][:60]}", payload=payload_of | {PAYLOADS[place]: 1}
        )
    claim(review=review, by=alice)
    exchange, webhook = add_calls(project), add_webhook(project)

    def path(name: str, *args: object) -> str:
        return reverse(f"console:{name}", args=(project.slug, *args))

    return {
        "review": path("review", review.pk),
        "task": path("task", judged.pk),
        "reveal": path("review", feedback.review_id),
        "compare": path("task-compare", judged.pk) + "?left=0&right=1&what=whole",
        "appeal": path("feedback-appeal", feedback.pk),
        "reviews": path("review-list"),
        "tasks": path("task-list"),
        "audit": path("audit"),
        "sessions": path("session-list"),
        "session": path("session", exchange.session_id),
        "exchange": path("exchange", exchange.pk) + "?prompt=1",
        "webhooks": path("webhooks"),
        "webhook": path("webhook", webhook.pk),
    }


def add_calls(project: Project) -> Exchange:
    """A call whose every word, token and name is a payload."""
    text = "\n".join(PAYLOADS)
    session = Session.objects.create(
        project=project, key=PAYLOADS[1][:200], worker_name=PAYLOADS[2][:64], agent=f"agent:{PAYLOADS[3][:100]}",
        end_user=PAYLOADS[4][:200],
    )  # fmt: skip
    places = list(range(len(PAYLOADS)))
    exchange = Exchange.objects.create(
        project=project, session=session, model=PAYLOADS[5][:200], adapter_name=PAYLOADS[6][:200], agent=session.agent,
        api=PAYLOADS[7][:16], text=text, reasoning=text, error=PAYLOADS[8], finish_reason=PAYLOADS[9][:32],
        messages=[
            {"role": PAYLOADS[10], "content": text}, {"role": "user", "content": [{"type": "text", "text": text}]}
        ],
        tool_calls=[{"function": {"name": payload, "arguments": {payload: payload}}} for payload in PAYLOADS[:20]],
        request={payload[:80]: payload for payload in PAYLOADS[:20]}
        | {"tools": [{"function": {"name": payload, "description": payload}} for payload in PAYLOADS[20:50]]},
        prompt_token_ids=pack_int32(places), token_ids=pack_int32(places), logprobs=pack_float32([-0.5] * len(places)),
        sampled=pack_bools([place % 3 > 0 for place in places]),
    )  # fmt: skip
    keep_spelling(exchange, places, list(PAYLOADS))
    turn = Turn.objects.create(project=project, session=session, number=0, state="settled", reason=PAYLOADS[11][:300])
    TurnExchange.objects.create(exchange=exchange, turn=turn)
    TurnSignal.objects.create(
        turn=turn, kind=PAYLOADS[12][:16], source="rule", reason=PAYLOADS[13][:300], hint=text, score=0.5, trust=0.5
    )
    return exchange


def add_webhook(project: Project) -> Webhook:
    webhook = Webhook.objects.create(
        project=project, name=PAYLOADS[14][:100], url=f"https://example.org/{PAYLOADS[15][:200]}", secret_sealed=b"",
        disabled_reason=PAYLOADS[16][:300], is_active=False,
    )  # fmt: skip
    for place, payload in enumerate(PAYLOADS[:25]):
        Delivery.objects.create(
            webhook=webhook, entry_id=place, kind=payload[:40], body={}, state="dead", attempts=1,
            tries=[{"at": "2026-01-01", "status": 500, "words": payload, "ms": 1}],
        )  # fmt: skip
    return webhook


def make_payload_task(worker: Worker, **values: str) -> Task:
    """Eight attempts; together their steps hold every payload, as a step's text and as a tool's result."""
    prompt = "\n".join(PAYLOADS)
    task = make_task(
        worker.project, worker, prompt=prompt, group_size=ATTEMPTS, answer="\n".join(PAYLOADS[:80]), **values
    )
    for index in range(ATTEMPTS):
        own = PAYLOADS[index::ATTEMPTS]
        attempt = Attempt.objects.create(
            task=task, index=index, worker=worker, answer="\n".join(own), text="\n".join(own), error=own[0], score=0.5
        )
        texts = ["\n\n".join(own[start : start + TOGETHER]) for start in range(0, len(own), TOGETHER)]
        Step.objects.bulk_create(
            Step(attempt=attempt, index=place, kind="call", text=text, tool_name=text[:100], tool_result=text)
            for place, text in enumerate(texts)
        )
    return task


def add_judgement(task: Task) -> Feedback:
    review = Review.objects.create(project=task.project, task=task, audience="human", state="closed")
    text = "\n".join(PAYLOADS)
    feedback = Feedback.objects.create(
        project=task.project, task=task, review=review, source="human", author="user:alice", score=0.5, text=text,
        edited_answer=text, hint_text=text[:1000],
    )  # fmt: skip
    Hint.objects.create(task=task, feedback=feedback, text=text, source=PAYLOADS[5][:64], reason=PAYLOADS[6][:300])
    steps = list(Step.objects.filter(attempt__task=task).select_related("attempt"))
    StepFeedback.objects.bulk_create(
        StepFeedback(
            feedback=feedback, attempt=step.attempt, step=step, comment=step.text, spans=[[0, 2, step.text[:60]]]
        )
        for step in steps
    )
    StepScore.objects.bulk_create(
        StepScore(attempt=step.attempt, step=step, scorer=step.text[:64], score=0.5, reason=step.text) for step in steps
    )
    return feedback


def visit(trap: Trap, surfaces: dict[str, str]) -> Iterator[tuple[str, Response]]:
    sign_in(trap.page, trap.address, "alice")
    for name, path in surfaces.items():
        answer = trap.page.goto(trap.address + path)
        assert answer is not None
        yield name, answer


@pytest.mark.parametrize("has_policy", [True, False], ids=["with the policy", "without it"])
def test_no_payload_does_anything_anywhere(
    surfaces: dict[str, str], browser: Browser, address: str, *, has_policy: bool
) -> None:
    assert len(PAYLOADS) >= 300
    context, trap = open_trap(browser, address)
    trap.ignored = trap.ignored if has_policy else OWN_REFRESH
    policy = settings.CONTENT_SECURITY_POLICY if has_policy else None
    with override_settings(CONTENT_SECURITY_POLICY=policy):
        for name, answer in visit(trap, surfaces):
            assert ("content-security-policy" in answer.headers) is has_policy
            trap.check(name)
            if name == "review":
                trap.page.locator("#as-markdown").check()
                trap.check("review as markdown")
                trap.page.get_by_role("button", name="Show differences").click()
                trap.page.locator("#compared table").wait_for()
                trap.check("differences")
                for start in range(0, len(PAYLOADS), 150):
                    words = "\n".join(PAYLOADS[start : start + 150])
                    trap.page.locator("#id_text").fill(words[:20_000])
                    trap.page.locator("#id_edited_answer").fill(words[:20_000])
                    with trap.page.expect_response(re.compile("/feedback/preview/")):
                        trap.page.get_by_role("button", name="Preview").click()
                    trap.check(f"preview from {start}")
    context.close()


def test_the_trap_hears_what_does_run(address: str, browser: Browser) -> None:
    """The control: the same strings as markup, on a page without a policy."""
    context, trap = open_trap(browser, address)
    complete = [payload for payload in PAYLOADS if payload.endswith("=__hit(1)>") and "style" not in payload]
    body = f"<script src={OUT}/x.js></script>" + "".join(f"<p>{payload}</p>" for payload in complete)
    context.route("**/raw/", lambda route: route.fulfill(content_type="text/html", body=body))
    context.route(re.compile("planted"), lambda route: route.abort())
    trap.page.goto(f"{address}/raw/", wait_until="domcontentloaded")
    while trap.page.evaluate("window.hits.length") <= 3:
        trap.page.wait_for_timeout(10)
    assert trap.sent
    context.close()
