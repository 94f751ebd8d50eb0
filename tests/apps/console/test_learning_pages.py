"""What a page about learning says beside its numbers: their source, their unit, and what is wrong with what serves."""

import re

import pytest
from django.test import Client
from django.urls import reverse

from apps.adapters.models import Deployment
from apps.console.selectors.line import find_line
from apps.console.selectors.metrics import group_charts
from apps.console.templatetags.naming import recipe_groups
from apps.console.templatetags.operations import box_unit, per_unit, version_of
from apps.training.cost_benefit import Return, Spent, judge_gain
from apps.training.models import TrainingRun
from tentalis.core.learning.gate import PairedComparison
from tests.e2e.quality_scenery import train_a_manager
from tests.e2e.scenery import Scene

ALARM = {"detector": "broken_tags", "found": 0.4, "allowed": 0.1, "update": None, "words": "4 of 10 answers are broken"}


def read(client: Client, name: str, *args: object) -> str:
    """A page of the scene, whole."""
    answer = client.get(reverse(f"console:{name}", args=("desk", *args)))
    assert answer.status_code == 200
    return answer.content.decode()


def words_of(page: str) -> str:
    return " ".join(re.sub(r"<[^>]+>", " ", page).split())


def test_a_recipe_is_grouped_and_says_what_differs_from_the_usual() -> None:
    groups = recipe_groups({"schema": "x", "algorithm": "dapo", "beta1": 0.9, "dual_clip": 3.0, "importance_cap": None})
    learns, far, optimiser = groups
    assert [(row.value, row.usual) for row in learns.rows] == [("DAPO", "GRPO")]
    assert [(row.value, row.usual) for row in far.rows] == [("3", "none")]
    assert (optimiser.is_folded, [row.usual for row in optimiser.rows]) == (True, [""])
    assert [(group.title, group.is_folded) for group in recipe_groups({"width": 8})] == [("", False)]


def test_a_gain_is_divided_by_a_unit_no_longer_than_what_was_trained() -> None:
    found = PairedComparison(
        items=300, candidate=0.5, reference=0.4, difference=0.1, low=0.05, high=0.15, std=0.3, confidence=0.9
    )
    brought = Return(spent=Spent(gpu_s=20.0), gain=judge_gain(found, against="v1"))
    assert [box_unit(seconds).seconds for seconds in (None, 20.0, 600.0, 90_000.0)] == [1, 1, 60, 3600]
    rate = per_unit(brought, box_unit(20.0))
    assert rate is not None
    assert (rate.points, rate.low, rate.high) == pytest.approx((0.5, 0.25, 0.75))
    assert per_unit(Return(spent=Spent(), gain=brought.gain), box_unit(None)) is None


def test_the_count_of_updates_is_no_curve() -> None:
    (group,) = group_charts([[{"update": 1, "updates": 2, "reward": 0.5}, {"update": 2, "updates": 2, "reward": 0.6}]])
    assert [chart.name for chart in group.charts] == ["reward"]


def test_the_name_of_an_adapter_tells_its_version() -> None:
    assert (version_of("shop.desk@v17-1a2b3c4d"), version_of("echo")) == ("v17", "echo")


@pytest.fixture
def client(scene: Scene) -> Client:
    client = Client()
    client.force_login(scene.alice)
    return client


def test_what_serves_wrongly_is_told_on_every_page_about_it(scene: Scene, client: Client) -> None:
    deployment = Deployment.objects.select_related("adapter").get(worker=scene.worker, end_user="")
    adapter = deployment.adapter
    assert adapter is not None
    trouble = "the model server does not know it"
    places: dict[str, list[object]] = {
        "project": [],
        "adapter-list": [],
        "adapter": [adapter.pk],
        "worker": [scene.worker.name],
    }
    assert not any(trouble in read(client, name, *args) for name, args in places.items())
    Deployment.objects.filter(pk=deployment.pk).update(trouble=trouble)
    assert all(trouble in read(client, name, *args) for name, args in places.items())


def test_alarms_stand_on_the_adapter_that_raised_them_and_on_the_dashboard(scene: Scene, client: Client) -> None:
    deployment = Deployment.objects.select_related("adapter").get(worker=scene.worker, end_user="")
    adapter = deployment.adapter
    assert adapter is not None
    run = scene.worker.runs.get(pk=adapter.run_id or 0)
    run.alarms = [ALARM]
    run.save(update_fields=["alarms"])
    assert "4 of 10 answers are broken" in read(client, "adapter", adapter.pk)
    assert f"1 alarm on {adapter.name}, which serves." in words_of(read(client, "project"))


def test_lists_of_runs_and_adapters_hold_what_was_measured(scene: Scene, client: Client) -> None:
    runs, adapters = words_of(read(client, "run-list")), words_of(read(client, "adapter-list"))
    assert re.search(r"v\d (deployed|retired) from v\d [+−]\d+\.\d \[[+−±]\d+\.\d, [+−±]\d+\.\d\]", runs)
    assert re.search(r"\d+\.\d % of \d+ tasks Safe to serve\? Yes : [+−]\d+\.\d points", adapters)
    assert 'data-table="accuracy-table"' in read(client, "adapter-list")


def test_a_verdict_leads_to_what_it_was_compared_with(scene: Scene, client: Client) -> None:
    served = scene.adapter
    verdict = served.verdicts.exclude(compared_with="").first()
    assert verdict is not None
    other = scene.worker.adapters.get(name=verdict.compared_with)
    assert f'<a href="{reverse("console:adapter", args=("desk", other.pk))}">{other.name}</a>' in read(
        client, "adapter", served.pk
    )


def test_a_managers_adapter_can_be_downloaded_and_leads_to_what_it_learnt_from(scene: Scene, client: Client) -> None:
    fit = train_a_manager(scene.worker, [scene.reviewed.pk])
    page = read(client, "manager-run", fit.pk)
    assert reverse("api:managerrun-download", args=(fit.pk,)) in page
    assert reverse("console:task", args=("desk", scene.reviewed.pk)) in page
    assert f"It replaced fit {fit.parent_id} replaced" in words_of(page)


def test_the_curves_run_over_the_whole_line_with_the_runs_by_name(scene: Scene, client: Client) -> None:
    line = find_line(scene.worker)
    assert line is not None
    assert [row.version for row in line.rows] == [0, *range(1, len(line.rows))]
    assert [chart.name for chart in line.charts] == [
        "reward", "accuracy", "silent", "kl", "entropy", "mean_length_tokens", "staleness",
    ]  # fmt: skip
    by_place = {chart.name: chart.place - 1 for chart in line.charts}
    second = {name: line.rows[2].cells[place][0] for name, place in by_place.items()}
    assert second["silent"] == pytest.approx(5 / 24)
    assert second["kl"] == pytest.approx(0.002 * 8**1.3)
    assert second["staleness"] == 0.5
    reward, low, high = (value for value, _ in line.rows[2].cells[:3])
    assert None not in (reward, low, high)
    assert (high or 0.0) - (reward or 0.0) == pytest.approx(0.30)
    page = client.get(reverse("console:run-list", args=["desk"])).content.decode()
    run = line.rows[2].run
    assert run is not None
    assert f'data-name="v2, Run {run.pk}, Half the learning rate"' in page
    assert "double-click shows everything again" in page
    assert (
        "Learning curves" not in client.get(reverse("console:run-list", args=["desk"]) + "?tag=rate").content.decode()
    )


def test_runs_are_found_by_their_tag(scene: Scene, client: Client) -> None:
    page = client.get(reverse("console:run-list", args=["desk"]), {"tag": "rate"}).context
    assert [point.run.name for point in page["points"]] == ["Half the learning rate"]
    assert client.get(reverse("console:run-list", args=["desk"]), {"tag": "rat"}).context["points"] == []


def test_a_run_of_two_updates_is_a_table_and_one_of_eight_four_charts(scene: Scene, client: Client) -> None:
    page = client.get(reverse("console:run", args=["desk", scene.run.pk])).content.decode()
    assert page.index("Mean reward") < page.index("more charts") < page.index("Gradient norm")
    TrainingRun.objects.filter(pk=scene.run.pk).update(metrics=[{"reward": 0.25, "kl": 0.001}, {"reward": 0.75}])
    page = client.get(reverse("console:run", args=["desk", scene.run.pk])).content.decode()
    assert "<figure" not in page
    table = page[page.index("Measured</th>") :]
    assert '<td class="right">0.25</td><td class="right">0.75</td>' in table
    assert '<td class="right">0.001</td><td class="right">–</td>' in table


def test_runs_side_by_side_say_what_differs_in_their_recipes(scene: Scene, client: Client) -> None:
    other = scene.worker.runs.exclude(metrics=[]).exclude(pk=scene.run.pk).latest("pk")
    TrainingRun.objects.filter(pk=other.pk).update(recipe=scene.run.recipe | {"learning_rate": 0.002})
    page = client.get(reverse("console:run", args=["desk", scene.run.pk]), {"with": other.pk}).content.decode()
    found = page[page.index("What differs in their recipes") : page.index("Compare with other runs")]
    assert '<td class="right">0.004</td><td class="right">0.002</td>' in found
    assert "LoRA rank" not in found
    TrainingRun.objects.filter(pk=other.pk).update(recipe=scene.run.recipe)
    page = client.get(reverse("console:run", args=["desk", scene.run.pk]), {"with": other.pk}).content.decode()
    assert "they have the same recipe" in page


def test_a_run_is_named_on_its_page_and_the_name_is_shown_as_text(scene: Scene, client: Client) -> None:
    address = reverse("console:run-describe", args=["desk", scene.run.pk])
    said = {"name": "<b>wide</b>", "tags": "wide, fast", "comment": "**Loud** <script>"}
    assert client.post(address, said).status_code == 302
    page = client.get(reverse("console:run", args=["desk", scene.run.pk])).content.decode()
    assert "&lt;b&gt;wide&lt;/b&gt;" in page
    assert "<b>wide" not in page
    assert "?tag=fast" in page
    assert "<script>" not in page.replace("<script ", "")
    assert client.post(address, said | {"tags": "x" * 41}).status_code == 400


def test_training_now_takes_a_recipe_and_a_name_for_this_run_alone(scene: Scene, client: Client) -> None:
    address = reverse("console:train", args=["desk", "desk"])
    page = client.get(address).content.decode()
    assert "What will happen" in page
    wrong = client.post(address, {"recipe": '{"learning_rate": "much"}'})
    assert wrong.status_code == 400
    assert "learning_rate" in wrong.content.decode()
    assert not TrainingRun.objects.filter(state="queued").exists()
    assert client.post(address, {"recipe": '{"learning_rate": 0.001}', "name": "Slow"}).status_code == 302
    run = TrainingRun.objects.get(name="Slow")
    assert run.recipe["learning_rate"] == 0.001
    scene.project.refresh_from_db()
    assert "learning_rate" not in scene.project.recipe
