"""A program's or a model's word on what an agent proposes, before anybody else's."""

import json

from apps.feedback.managers import find_judge
from apps.feedback.rules import validate_review_policy
from apps.inference.metering import charge
from apps.outbox.services import final_write
from apps.supervision.models import Proposal
from apps.supervision.policies import read_policy
from apps.supervision.services import take_models_word
from apps.supervision.supervisors import ask_supervisor, name_program
from tentalis.core.scoring.judging import build_decision_request
from tentalis.core.scoring.protocol import Unscored


def ask_model(proposal_id: int) -> None:
    """Have the program that its worker's rules name decide a proposal that still waits, and the model that judges the
    project's work where that one is not sure and the rules want it; what the model costs is its task's."""
    waiting = Proposal.objects.filter(pk=proposal_id, state=Proposal.State.PENDING)
    proposal = waiting.select_related("project", "task__worker").first()
    policy = read_policy(proposal.task.worker) if proposal is not None else None
    if proposal is None or policy is None:
        return
    if policy.supervisor:
        told = ask_supervisor(policy.supervisor, proposal)
        is_sure = not isinstance(told, Unscored) and told.word != "unsure"
        if is_sure or not policy.model_decides:
            with final_write([proposal.pk]):
                take_models_word(proposal, told, by=name_program(policy.supervisor), model=policy.supervisor)
            return
    if not policy.model_decides:
        return
    project = proposal.project
    judge = find_judge(validate_review_policy(project.review_policy), project)
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
        take_models_word(proposal, said, by=judge.author, model=judge.model, judge=judge.told)
