"""One search over everything of a project."""

from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.urls import reverse
from django.views.decorators.http import require_GET

from apps.base.errors import BadInputError
from apps.console.views.frame import Scene, find_page, project_view, show
from apps.finding.search import Hit, SearchResults, search

PAGES = {"task": "task", "review": "review", "feedback": "feedback", "session": "session", "exchange": "exchange"}
PAGES |= {"adapter": "adapter", "run": "run"}


@require_GET
@project_view()
def find_anything(request: HttpRequest, scene: Scene) -> HttpResponse:
    """What holds the words; straight to what was meant, where a number or a hash says it."""
    text = request.GET.get("q", "").strip()
    found, trouble, status = SearchResults(), "", 200
    if text:
        try:
            found = search(project=scene.project, user=scene.user, text=text, rights=scene.rights)
        except BadInputError as error:
            trouble, status = str(error), error.status
    if found.jump is not None:
        return redirect(find_hit(scene, found.jump))
    groups = [(group, [(hit, find_hit(scene, hit)) for hit in group.hits]) for group in found.groups]
    return show(request, scene, "search", {"q": text, "groups": groups, "trouble": trouble}, status=status)


def find_hit(scene: Scene, hit: Hit) -> str:
    """The page of what was found."""
    if hit.kind == "worker":
        return find_page(scene, "worker", hit.name)
    if hit.kind == "person":
        return find_page(scene, "members")
    if hit.kind == "audit":
        subject, _colon, number = hit.name.partition(":")
        return f"{reverse('console:audit', args=(scene.project.slug,))}?subject={subject}&id={number}"
    return find_page(scene, PAGES[hit.kind], hit.pk)
