"""Judges are probed from the command line, on a real platform."""

from django.utils import timezone

from apps.judges.models import JudgeProbe
from tentalis.core.scoring.judge_probes import measure_judge
from tests.cli.conftest import Run
from tests.scripted_judges import TASTES, ScriptedJudge, answers_of


def test_a_judge_is_probed_and_what_came_of_it_is_shown(signed_in: Run) -> None:
    assert "no judge was probed" in signed_in("judge", "list").out
    assert "no model is configured to judge here" in signed_in("judge", "probe").err
    made = signed_in("judge", "probe", "my-judge", "--no-wait", "--json").json
    assert (made["judge"], made["state"], made["verdict"]) == ("my-judge", "queued", "")
    assert "is being probed" in signed_in("judge", "probe", "my-judge").err
    figures = [vars(one) for one in measure_judge(answers_of(ScriptedJudge(TASTES["first"])))]
    JudgeProbe.objects.update(
        state="done", verdict="below", words="position: +1.00", figures=figures, finished_at=timezone.now()
    )
    shown = signed_in("judge", "show", str(made["id"]))
    assert (shown.code, "position" in shown.out, "known" in shown.out) == (0, True, True)
    assert [row["id"] for row in signed_in("judge", "list", "--verdict", "below", "--json").json] == [made["id"]]
    assert signed_in("judge", "list", "--verdict", "above", "--json").json == []
    assert signed_in("project", "judges", "shop", "--json").json["standing"] == ""
