"""The models that may be asked to score: a project's judges, else the installation's model."""

from dataclasses import dataclass

from django.conf import settings

from apps.accounts.models import Project
from apps.base.errors import TentalisError
from apps.inference.client import ModelClient
from apps.inference.services import client_for

DEFAULT_VOTES = 3


@dataclass(frozen=True)
class Voter:
    """A model that votes.

    Args:
        client: None where its provider cannot be used, for `fault`.
    """

    name: str
    model: str
    votes: int
    client: ModelClient | None
    fault: str = ""


def find_voters(project: Project) -> list[Voter]:
    """The project's active judges whose word counts; without any, the installation's model; without that, nobody."""
    voters = []
    for judge in project.judges.select_related("provider").filter(is_active=True, trust__gt=0).order_by("id"):
        try:
            voters.append(Voter(judge.name, judge.model, judge.votes, client_for(judge.provider, project.pk)))
        except TentalisError as error:
            voters.append(Voter(judge.name, judge.model, judge.votes, None, str(error)))
    model: str = settings.TENTALIS["LLM_MODEL"]
    if not voters and model:
        voters.append(Voter("default", model, DEFAULT_VOTES, client_for(None, project.pk)))
    return voters
