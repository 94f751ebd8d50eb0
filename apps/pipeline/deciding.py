"""A model's word on what an agent proposes, before anybody else's."""

import json

from apps.feedback.managers import find_judge
from apps.feedback.rules import validate_review_policy
from apps.inference.metering import charge
from apps.outbox.services import final_write
from apps.supervision.models import Proposal
from apps.supervision.policies import read_policy
from apps.supervision.services import take_models_word
from tentalis.core.scoring.judging import build_decision_request


def ask_model(proposal_id: int) -> None:
    """Have the model that judges the project's work decide a proposal that still waits, if its worker's rules still
    say so; what it costs is its task's."""
    waiting = Proposal.objects.filter(pk=proposal_id, state=Proposal.State.PENDING)
    proposal = waiting.select_related("project", "task__worker").first()
    policy = read_policy(proposal.task.worker) if proposal is not None else None
    if proposal is None or policy is None or not policy.model_decides:
        return
    project = proposal.project
    judge = find_judge(validate_review_policy(project.review_policy), project.pk)
    request = build_decision_request(
        prompt=proposal.task.prompt,
        action=json.dumps(proposal.action, ensure_ascii=False, sort_keys=True),
        context=proposal.context,
        risk=proposal.risk,
        rubric=project.rubric,
        constitution=project.constitution,
    )
    with charge(project=project, turn="manager", task_id=proposal.task_id):
        said = judge.decide(request)
    with final_write([proposal.pk]):
        take_models_word(proposal, said, by=judge.author, model=judge.model)
