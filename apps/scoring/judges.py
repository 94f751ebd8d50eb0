"""The model that may be asked to score: the installation's."""

from dataclasses import dataclass

from django.conf import settings

from apps.accounts.models import Project
from apps.inference.client import ModelClient
from apps.inference.services import client_for

VOTES = 3


@dataclass(frozen=True)
class Voter:
    """A model that votes."""

    model: str
    client: ModelClient


def find_voter(project: Project) -> Voter | None:
    """The installation's model, asked for a project; None where none is configured."""
    model: str = settings.TENTALIS["LLM_MODEL"]
    return Voter(model, client_for(None, project.pk)) if model else None
