"""A project in which one row of everything stands, and the requests that name them."""

import json
from base64 import b64encode
from typing import Any

from django.utils import timezone

from apps.accounts.invitations import invite
from apps.accounts.models import Member, Project, Role, User
from apps.accounts.tokens import create_token
from apps.adapters.models import Adapter
from apps.checks.models import NamedCheck
from apps.conversations.models import Turn
from apps.evals.models import Benchmark, Experiment, Item, Taskset, TryRecord
from apps.evals.panels import LEAST_OWN
from apps.feedback.models import Feedback, GoldItem, Review
from apps.inference.models import Exchange, Price, Provider, ProviderGrant, Session
from apps.judges.models import JudgeProbe
from apps.outbox.models import Segment
from apps.regrading.models import Regrading
from apps.rollouts.models import Batch, Rollout, TrainingUse
from apps.scoring.models import RewardModel
from apps.skills.models import Skill
from apps.supervision.models import Proposal
from apps.tasks.models import Attempt, EpisodeTurn, Step, Task
from apps.training.models import Course, ManagerRun, TrainingRun
from apps.training.rewards import issue_reward_url
from apps.webhooks.models import Delivery, Webhook
from apps.workers.models import Ensemble
from apps.worlds.models import RepoTaskAdmission
from tentalis.core.learning.curriculum import CurriculumRule
from tests.factories import make_measured, make_task, make_user, make_worker

UPLOAD = "1" * 64
"""A file that was sent."""
REPO_TASK = {
    "schema": "tentalis.repo-task.v1", "name": "calc-3", "issue": "Sums come out wrong.",
    "fail_to_pass": ["tests.test_calc.CalcTest.test_add"], "parser": "unittest",
}  # fmt: skip
ROW = json.dumps({"question": "What are 2 and 2?", "answer": "#### 4"})
"""All that a benchmark is made of."""
EVERY_ROLE = {role.value: f"{role.value}-of-shop" for role in Role}


def make_lived_in(project: Project) -> dict[str, Any]:
    """Fill a project; what a path's placeholders stand for."""
    for role, name in EVERY_ROLE.items():
        Member.objects.create(project=project, user=make_user(name, is_agent=role == "agent"), role=role)
    owner = User.objects.get(username=EVERY_ROLE["owner"])
    worker, _ = make_worker(project), make_worker(project, "desk", kind="desk", is_active=False)
    members = [make_worker(project, name, kind="desk", is_active=False).name for name in ("one", "two")]
    task = make_task(project, worker, state=Task.State.IN_REVIEW, submitted_by=owner)
    attempt = Attempt.objects.create(task=task, index=0, worker=worker, answer="hi", text="hi", score=0.5)
    Step.objects.create(attempt=attempt, index=0, kind="step", text="hi")
    EpisodeTurn.objects.create(attempt=attempt, index=0, started_at=timezone.now())
    review = Review.objects.create(project=project, task=task, audience=Review.Audience.HUMAN)
    feedback = Feedback.objects.create(project=project, task=task, source="human", author="user:bob", score=1)
    adapter = Adapter.objects.create(
        project=project, worker=worker, name="shop.echo@v1-0", version=1, line_version=1, uri="file:///nowhere",
        sha256="0" * 64, manifest={}, state=Adapter.State.REFUSED,
    )  # fmt: skip
    proposal = Proposal.objects.create(
        project=project, task=task, proposed_by=User.objects.get(username=EVERY_ROLE["agent"]), kind="tool",
        tool="refund", action={"kind": "tool", "tool": "refund", "arguments": {}}, deadline_at=timezone.now(),
    )  # fmt: skip
    rollout = Rollout.objects.create(
        project=project, worker=worker, task=task, attempt=attempt, is_usable=False, unusable_reason="for a test"
    )
    batch = Batch.objects.create(project=project, worker=worker, number=1, state=Batch.State.CLOSED, target_tasks=1)
    TrainingUse.objects.create(rollout=rollout, batch=batch)
    run = TrainingRun.objects.create(
        project=project, worker=worker, batch=batch, recipe={}, recipe_hash="0" * 64, state=TrainingRun.State.FAILED
    )
    sampling = TrainingRun.objects.create(
        project=project, worker=worker, purpose="manager", recipe={}, recipe_hash="0" * 64, state="running", attempt=1
    )
    manager_run = ManagerRun.objects.create(
        project=project, manager="agent:rubric:desk", state="applied",
        metrics={"of": "0", "until": 0, "auc_before": None},
    )  # fmt: skip
    reward_model = RewardModel.objects.create(
        project=project, worker=worker, name="shop.echo.prm@v1-00000000", version=1, run_id=sampling.pk,
        uri="file:///nowhere", sha256="0" * 64, manifest={}, state="live",
    )  # fmt: skip
    segment = Segment.objects.create(
        kind="work", subject_id=task.pk, project_id=project.pk, links=["tasks.work"], queue="workers", state="dead"
    )
    provider = Provider.objects.create(project=project, name="box", kind="vllm", base_url="https://box.example.com")
    shared = Provider.objects.create(name="shared", kind="vllm", base_url="https://shared.example.com")
    grant = ProviderGrant.objects.create(provider=shared, project=project, granted_by="user:root")
    agent = User.objects.get(username=EVERY_ROLE["agent"])
    session = Session.objects.create(project=project, key="talk", agent=agent.handle)
    exchange = Exchange.objects.create(
        project=project, session=session, model="big", text="hi", agent=agent.handle, worker_name=worker.name,
        messages=[{"role": "user", "content": "Say hello."}],
    )  # fmt: skip
    turn = Turn.objects.create(project=project, session=session, number=0)
    skill = Skill.objects.create(project=project, name="greet", description="How to greet.", body="Say hello.")
    check = NamedCheck.objects.create(project=project, name="brief", spec={"check": "length", "max": 9})
    taskset = Taskset.objects.create(project=project, name="set", environment="chat")
    evaluation = make_measured(worker, None, [1.0, 0.0], purpose="report", asked_by=owner.handle)
    evaluation.item_tries.update(answer="Red.")
    TryRecord.objects.create(item_try=evaluation.item_tries.earliest("pk"), answer="Red.", prompt_hash="0" * 32)
    item = taskset.items.create(split="train", prompt="Name a sea.", content_hash="0" * 64, bands=[1])
    learnable = Taskset.objects.create(project=project, name="learnable", environment="chat")
    Item.objects.bulk_create(
        Item(taskset=learnable, split=split, prompt=f"Say {n}.", content_hash=f"{n:064x}", bands=[n])
        for n, split in enumerate(["train"] * 2 + ["held_out"] * LEAST_OWN)
    )
    benchmark = Benchmark.objects.create(
        project=project,
        name="desk",
        entry="desk",
        entry_version="0",
        taskset=learnable,
        licence="MIT",
        source="by hand",
    )
    course = Course.objects.create(
        project=project, worker=worker, benchmark=benchmark, started_by=owner, rounds_wanted=2, tasks_a_round=2,
        group_size=2, patience=2, rule=CurriculumRule().to_json(),
    )  # fmt: skip
    experiment = Experiment.objects.create(project=project, experiment="e", asked_by=owner.handle)
    other = make_measured(worker, None, [0.0, 1.0], purpose="report", items="other", asked_by=owner.handle)
    experiment.scenarios.create(scenario="s", candidate=evaluation, reference=other)
    regrading = Regrading.objects.create(
        project=project, source="attempts", rule={"rubric": "r"}, last_id=1, planned=1, asked_by=owner.handle
    )
    probe = JudgeProbe.objects.create(project=project, model="judge", version="0", asked_by=owner.handle)
    webhook = Webhook.objects.create(project=project, url="https://hooks.example.com/secret", secret_sealed=b"")
    delivery = Delivery.objects.create(webhook=webhook, kind="task.done", body={}, state="dead")
    price = Price.objects.create(provider=provider, model="m", input=1, output=2, valid_from=timezone.now())
    token, _ = create_token(user=owner, name="owner's", scopes=["tasks:read"], by=owner)
    invitation, _ = invite(project=project, username="newcomer", role="viewer", by=owner)
    known = make_task(project, worker, state=Task.State.DONE, submitted_by=owner)
    gold = GoldItem.objects.create(
        project=project, task=known, expected={"score": 1, "attempts": {}}, truth="reference", added_by=owner
    )
    rows = {
        "gold": gold, "invitation": invitation, "user": make_user("bob"),
        "member": Member.objects.get(project=project, user__username="bob"), "token": token, "worker": worker,
        "task": task, "attempt": attempt, "episode": attempt,
        "review": review, "feedback": feedback, "rollout": rollout, "batch": batch,
        "manager_run": manager_run, "reward_model": reward_model,
        "run": run, "adapter": adapter, "segment": segment, "provider": provider, "price": price, "proposal": proposal,
        "shared": shared, "grant": grant,
        "session": session, "exchange": exchange, "turn": turn, "skill": skill, "taskset": taskset,
        "dataset": taskset, "item": item,
        "benchmark": benchmark, "course": course,
        "evaluation": evaluation, "other": other,
        "item_try": evaluation.item_tries.earliest("pk"), "regrading": regrading, "judge_probe": probe,
        "check": check,
        "experiment": experiment, "webhook": webhook, "delivery": delivery,
        "ensemble": Ensemble.objects.create(project=project, name="echo", members=members),
    }  # fmt: skip
    secret = issue_reward_url(sampling.pk, 1).rpartition("/")[2]
    admission = RepoTaskAdmission.objects.create(
        name="calc-2", split="train", task={}, repository=UPLOAD, asked_by=owner.handle
    )
    of_no_project = {"repo_task": "calc-1@0123456789ab", "admission": admission.pk, "upload": UPLOAD}
    return {"slug": project.slug, "secret": secret, **of_no_project, **{name: row.pk for name, row in rows.items()}}


def make_bodies(ids: dict[str, Any]) -> dict[str, Any]:
    """A valid body for every route that takes one."""
    slug = ids["slug"]
    return {
        "POST login": {"username": "alice", "password": "alice-has-a-password"},
        "POST projects": {"slug": "fresh", "name": "Fresh"},
        "PATCH projects/{slug}": {"name": "Renamed"},
        "PATCH projects/{slug}/judges": {"who": "both", "rate": 0.5},
        "POST users": {"username": "newcomer"},
        "PATCH users/{user}": {"may_make_projects": False},
        "POST users/{user}/reset-password": {"draw": True},
        "POST members": {"project": slug, "username": "new-agent", "role": "agent"},
        "POST invitations": {"project": slug, "username": "somebody", "role": "viewer"},
        "PATCH members/{member}": {"role": "viewer"},
        "POST tokens": {"name": "mine", "scopes": ["tasks:read"]},
        "PATCH tokens/{token}": {"limits": {"requests_per_minute": 5}},
        "PATCH runs/{run}": {"name": "Half the rate", "tags": ["rate"]},
        "POST tasksets": {"project": slug, "name": "fresh", "environment": "chat"},
        "POST tasksets/{taskset}/items": {"split": "held_out", "text": '{"prompt": "Name a lake."}', "form": "jsonl"},
        "POST tasksets/{taskset}/split": {"shares": {"train": 50, "held_out": 50}},
        "POST adapters/{adapter}/canary": {"percent": 10},
        "POST adapters/{adapter}/shadow": {"percent": 10},
        "POST manager-runs/{manager_run}/rollback": {"reason": "It fell."},
        "PATCH adapters/{adapter}/canary": {"percent": 20},
        "POST adapters/{adapter}/quarantine": {"reason": "Odd."},
        "POST adapters/{adapter}/release": {"reason": "Harmless."},
        "POST judge-probes": {"project": slug, "model": "box/judge"},
        "POST regradings": {"project": slug, "history": "attempts", "rubric": "Be brief."},
        "POST evaluations": {"project": slug, "worker": "desk", "environment": "desk", "size": 5},
        "POST evaluations/{evaluation}/tries/{item_try}/grade": {"value": 0.5, "text": "Half of it."},
        "POST evaluations/{evaluation}/tries/{item_try}/keep": {"right": "Red.", "match": "exact"},
        "POST evaluations/{evaluation}/rescore": {"checks": [{"check": "contains", "value": "Red"}]},
        "POST evaluations/import": {
            "project": slug,
            "worker": "desk",
            "file": b64encode(
                b'{"messages": [{"role": "user", "content": "Name a sea."}, {"role": "assistant", "content": "Red."}]}'
            ).decode(),
        },
        "POST repo-tasks": {"text": json.dumps(REPO_TASK), "split": "train", "repository": ids["upload"]},
        "POST uploads/{upload}": {"size_bytes": 2, "offset": 0, "part": "YWI="},
        "POST benchmarks": {"project": slug, "name": "gsm8k", "text": ROW},
        "POST benchmarks/pieces": {"project": slug, "packed": "UEsDBA=="},
        "POST datasets": {"project": slug, "name": "gsm8k", "text": ROW},
        "POST courses": {"project": slug, "worker": "echo", "benchmark": ids["benchmark"]},
        "POST experiments": {
            "project": slug,
            "experiment": "e",
            "scenarios": [{"scenario": "s", "candidate": ids["evaluation"], "reference": ids["other"]}],
        },
        "POST skills": {"project": slug, "name": "greet", "description": "How to greet.", "body": "Say good day."},
        "PATCH skills/{skill}": {"is_active": False},
        "POST checks": {"project": slug, "name": "brief", "spec": {"check": "length", "max": 400}},
        "PATCH checks/{check}": {"default_for": "chat"},
        "POST checks/try": {"project": slug, "spec": {"check": "contains", "value": "hello"}},
        "POST webhooks": {"project": slug, "url": "https://hooks.example.com/T1"},
        "PATCH webhooks/{webhook}": {"name": "chat"},
        "POST providers": {"project": slug, "name": "fresh", "kind": "vllm", "base_url": "http://box.example:9"},
        "PATCH providers/{provider}": {"default_model": "big"},
        "POST providers/{provider}/test": {"model": "big"},
        "POST provider-grants": {"provider": ids["shared"], "project": slug},
        "PATCH provider-grants/{grant}": {"tokens_per_day": 1000},
        "POST prices": {"provider": ids["provider"], "model": "n", "input": 0.5, "output": 2},
        "POST workers": {"project": slug, "name": "another", "kind": "echo"},
        "PATCH workers/{worker}": {"system_prompt": "Be kind."},
        "POST ensembles": {"project": slug, "name": "other", "members": ["one", "desk"]},
        "PATCH ensembles/{ensemble}": {"wait_s": 5},
        "POST tasks": {"project": slug, "prompt": "Say hello.", "environment": "chat", "worker": "echo"},
        "POST tasks/import": {"project": slug, "environment": "chat", "form": "lines", "text": "Hi.", "worker": "echo"},
        "POST tasks/from-sessions": {
            "project": slug,
            "environment": "chat",
            "worker": "echo",
            "sessions": [ids["session"]],
        },
        "POST attempts": {"task": ids["task"], "steps": [{"text": "so"}], "answer": "hi"},
        "POST reviews/claim": {"project": slug},
        "POST reviews/{review}/feedback": {"score": 1, "text": "Good."},
        "POST reviews/{review}/skip": {"reason": "Mine.", "then": "nobody"},
        "POST reviews/{review}/assign": {"to": None},
        "PUT reviews/{review}/draft": {"version": 0, "data": {"text": "Go"}},
        "POST feedback/{feedback}/keep": {"right": "hi", "match": "exact"},
        "POST feedback/{feedback}/retract": {"reason": "Wrong."},
        "POST feedback/{feedback}/appeal": {"reason": "It is right."},
        "POST sessions/{session}/feedback": {"score": 0.5},
        "POST exchanges/{exchange}/feedback": {"score": 0.5},
        "POST projects/{slug}/forget": {"text": "say hello"},
        "POST feedback": {"task": ids["task"], "score": 0.5},
        "POST gold": {"task": ids["task"], "expected": {"score": 1, "attempts": {"0": 1}}},
        "POST proposals": {"task": ids["task"], "action": {"kind": "tool", "tool": "refund"}},
        "POST proposals/{proposal}/decide": {"decision": "approve"},
        "POST bridge/tasks/assign": {"task_type": "chat", "prompt": "Hi.", "metadata": {"project": slug}},
        "POST bridge/tasks/result": {
            "task_id": ids["task"],
            "worker_id": "echo",
            "status": "success",
            "result": "hi",
            "steps": ["so"],
        },
        "POST bridge/feedback": {"task_id": ids["task"], "worker_id": "echo", "score": 1},
        "POST bridge/sessions/log": {
            "session_id": "s",
            "worker_id": "echo",
            "messages": [{"role": "assistant", "content": "hi"}],
            "metadata": {"project": slug},
        },
        "POST rewards/{secret}": {"query": ["Hi?Hi."], "prompts": ["Hi?"], "labels": [f'{{"task": {ids["task"]}}}']},
        "POST runs": {"project": slug, "worker": "echo"},
        "POST dead-letters/replay": {"project": slug},
        "POST reward-models": {"project": slug, "worker": "echo"},
    }


QUERIES = {
    "GET bridge/tasks/{task}/status": "?wait=0",
    "GET metrics/learning": "?project={slug}&worker=echo",
    "GET metrics/gain": "?project={slug}&worker=echo",
    "GET metrics/cost": "?project={slug}",
    "GET metrics/queues": "?project={slug}",
    "GET sessions/asked": "?project={slug}",
    "GET comparisons": "?a={evaluation}&b={evaluation}",
    "GET comparisons/together": "?a={evaluation}&b={other}",
    "GET search": "?project={slug}&q=brass",
}
