"""What is known of judges: how the newest probe of each ended, and whether what it says may train."""

from collections.abc import Collection, Iterable, Mapping
from typing import Any, NamedTuple

from django.db.models import QuerySet

from apps.accounts.models import Project
from apps.inference.judges import Voter, find_judging_model, open_voter
from apps.inference.models import Provider
from apps.judges.models import JudgeProbe, name_judge
from tentalis.core.scoring.protocol import Unscored

DEMANDS_PROBES = "only_probed_judges"
"""Of a review policy: whether a judge that was never probed may train."""
NOT_PROBED = "not probed"
SAID = ("above", "below")
"""The verdicts of probes that say something of a judge."""


JudgeKey = tuple[int | None, str]
"""Id of the server, None of the installation's own, and the model."""


class JudgeStanding(NamedTuple):
    """How a judge stands by the newest probe that said something of it.

    Args:
        probe: None: none did.
        barred: why what it says trains nothing; "" where it may.
    """

    probe: JudgeProbe | None
    barred: str

    @property
    def words(self) -> str:
        return self.barred or (f"above its bar (probe {self.probe.pk})" if self.probe else NOT_PROBED)


def find_standing(project: Project, provider: Provider | None, model: str) -> JudgeStanding:
    """Of a model at a server. A probe that nothing was scored of changes nothing. One query."""
    said = JudgeProbe.objects.filter(project=project, provider=provider, model=model, verdict__in=SAID)
    probe = said.defer("answers").order_by("-pk").first()
    return JudgeStanding(probe, _say_bar(project, provider, model, probe))


def find_bar(project: Project, provider: Provider | None, model: str) -> str:
    """Why what a judge says trains nothing; "" where it may."""
    return find_standing(project, provider, model).barred


def _say_bar(project: Project, provider: Provider | None, model: str, probe: JudgeProbe | None) -> str:
    name = name_judge(provider, model)
    if probe is None:
        return f"the judge {name} was not probed, as the project demands" if demands_probes(project) else ""
    if probe.verdict == JudgeProbe.Verdict.BELOW:
        return f"{say_below(probe, name)}: {probe.words}"
    return ""


def say_below(probe: JudgeProbe, name: str = "") -> str:
    return f"the judge {name or probe.judge} is below its bar (probe {probe.pk}), and trains nothing"


def demands_probes(project: Project) -> bool:
    return bool(project.review_policy.get(DEMANDS_PROBES))


def find_training_voter(project: Project, name: str = "") -> Voter | Unscored | None:
    """As `find_voter`, of a judge whose word trains; why nobody is asked where it may not.

    Raises: as `open_voter`.
    """
    provider, model = find_judging_model(project.pk, name)
    if not model:
        return None
    if barred := find_bar(project, provider, model):
        return Unscored(barred)
    return open_voter(project.pk, provider, model)


class ProbedJudge(NamedTuple):
    """A judge as pages show it.

    Args:
        newest: probe, whatever came of it; None: it was never probed.
    """

    name: str
    newest: JudgeProbe | None
    standing: JudgeStanding


def list_judges(project: Project, named: Collection[tuple[Provider | None, str]]) -> list[ProbedJudge]:
    """Those that settings name, and those that were probed. Two queries.

    Args:
        named: server and model of each.
    """
    rows = JudgeProbe.objects.filter(project=project)
    newest = {(row.provider_id, row.model): row for row in find_newest(rows)}
    said = {(row.provider_id, row.model): row for row in find_newest(rows.filter(verdict__in=SAID))}
    servers = {(provider.pk if provider else None, model): provider for provider, model in named}
    servers |= {key: row.provider for key, row in newest.items()}
    return [
        ProbedJudge(
            name_judge(provider, key[1]),
            newest.get(key),
            JudgeStanding(said.get(key), _say_bar(project, provider, key[1], said.get(key))),
        )
        for key, provider in servers.items()
    ]


def find_newest(rows: QuerySet[JudgeProbe]) -> QuerySet[JudgeProbe]:
    """Of each judge of each project the newest of these probes."""
    distinct = rows.order_by("project_id", "provider_id", "model", "-pk").distinct("project_id", "provider_id", "model")
    return distinct.select_related("provider").defer("answers")


def find_below(project_id: int) -> dict[JudgeKey, JudgeProbe]:
    """Those of a project that are below their bar, with the probe that says so. One query."""
    said = find_newest(JudgeProbe.objects.filter(project=project_id, verdict__in=SAID))
    return {(one.provider_id, one.model): one for one in said if one.verdict == JudgeProbe.Verdict.BELOW}


def find_fallen(below: Mapping[JudgeKey, JudgeProbe], told: Iterable[Mapping[str, Any]]) -> JudgeProbe | None:
    """The probe by which one of these judges is below its bar; None where none is.

    Args:
        below: as `find_below` has them.
        told: judges as `tell_judge` tells them; {}: nobody.
    """
    return next((probe for one in told if one and (probe := below.get((one["provider"], one["model"])))), None)


def find_first(row: JudgeProbe) -> JudgeProbe | None:
    """The earliest probe that asked the same of the same judge and was scored; None: it is this one."""
    same = JudgeProbe.objects.filter(
        project=row.project_id, provider=row.provider_id, model=row.model, version=row.version, pk__lt=row.pk
    )
    return same.filter(verdict__in=SAID).order_by("pk").first()


def find_unfinished(probe_ids: Collection[int]) -> list[tuple[int, int]]:
    """(id, project) of those that go on."""
    running = JudgeProbe.objects.filter(pk__in=probe_ids, state=JudgeProbe.State.RUNNING)
    return list(running.values_list("pk", "project_id"))
