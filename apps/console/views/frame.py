"""What every page of a project stands in: who looks, at which project, with which rights."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import wraps
from typing import Any, Concatenate, ParamSpec, TypeVar

from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.core.exceptions import PermissionDenied
from django.db.models import OuterRef
from django.forms import Form
from django.http import Http404, HttpRequest, HttpResponse, QueryDict
from django.shortcuts import redirect, render
from django.urls import reverse
from django.views.decorators.cache import never_cache

from apps.accounts.models import Project, User
from apps.accounts.rights import Right
from apps.accounts.services import find_rights
from apps.base.errors import TentalisError
from apps.console.forms import show_error
from apps.console.selectors.live import find_latest_entry_id
from apps.console.selectors.review_queue import find_reviewers
from apps.console.selectors.work import count_open_reviews
from apps.console.selectors.workers import find_worker_names
from apps.operations.servers import away_of

P = ParamSpec("P")
Found = TypeVar("Found")
SWITCHER = 30
LAST_PROJECT = "last_project"


@dataclass(frozen=True)
class Scene:
    """A user at work in a project.

    Attributes:
        servers_away: (name, since) of model servers that the project's workers use and that do not answer.
        heard: id of the last audit entry when the page was begun; its live updates start there.
    """

    user: User
    project: Project
    rights: frozenset[Right]
    servers_away: Sequence[tuple[str, datetime]] = ()
    heard: int = field(default_factory=find_latest_entry_id)

    def may(self, right: Right) -> bool:
        return right in self.rights

    @property
    def can(self) -> Mapping[str, bool]:
        """Name of each right -> whether they have it, for templates: `scene.can.TASKS_WRITE`."""
        return {right.name: right in self.rights for right in Right}

    @property
    def projects(self) -> list[Project]:
        """What the switcher offers."""
        return list(Project.objects.visible_to(self.user).active().only("slug", "name").order_by("name")[:SWITCHER])

    @property
    def waiting_reviews(self) -> str:
        return count_open_reviews(self.project) if self.may(Right.REVIEWS_WRITE) else ""


def project_view(
    right: Right | None = None,
) -> Callable[[Callable[Concatenate[HttpRequest, Scene, P], HttpResponse]], Callable[..., HttpResponse]]:
    """A page of one project: signed in or sent to sign in, a member or 404, with the right or 403."""

    def decorate(view: Callable[Concatenate[HttpRequest, Scene, P], HttpResponse]) -> Callable[..., HttpResponse]:
        @wraps(view)
        def look(request: HttpRequest, slug: str, *args: P.args, **kwargs: P.kwargs) -> HttpResponse:
            user: Any = request.user
            found = Project.objects.visible_to(user).filter(slug=slug)
            project: Any = found.annotate(away=away_of(OuterRef("pk"))).first()
            if project is None:
                raise Http404(f"no project {slug}")
            away = [(one["name"], datetime.fromisoformat(one["since"])) for one in project.away]
            scene = Scene(user, project, find_rights(user, project), away)
            if right is not None and not scene.may(right):
                raise PermissionDenied(f"This takes the right {right.value} in {project.name}.")
            if request.session.get(LAST_PROJECT) != slug:
                request.session[LAST_PROJECT] = slug
            return view(request, scene, *args, **kwargs)

        return never_cache(login_required(look))

    return decorate


def require(scene: Scene, right: Right) -> None:
    """For views whose page takes one right to see and another to change.

    Raises:
        PermissionDenied: in words for the reader.
    """
    if not scene.may(right):
        raise PermissionDenied(f"This takes the right {right.value} in {scene.project.name}.")


def show(
    request: HttpRequest, scene: Scene, page: str, context: Mapping[str, Any], *, status: int = 200
) -> HttpResponse:
    """Render a page, or the one fragment of it that a live update asks for by `?fragment=`."""
    fragment = request.GET.get("fragment", "")
    template = f"console/{page}.html"
    if fragment and fragment in context.get("fragments", ()):
        template = f"console/_{fragment}.html"
    return render(request, template, {"scene": scene, **context}, status=status)


@dataclass(frozen=True, kw_only=True)
class Confirmation:
    """What a button will do, said on a page of its own before it is done.

    Args:
        lines: what will happen, a sentence each.
        back: the page to go back to; back_words: what that is.
        why_not: why it cannot be done, in words; "" where it can.
    """

    title: str
    lines: Sequence[str]
    button: str
    back: str
    back_words: str
    why_not: str = ""
    is_dangerous: bool = True


def ask(
    request: HttpRequest, scene: Scene, question: Confirmation, *, form: Form | None = None, status: int = 200
) -> HttpResponse:
    """The page that says what will happen, with the button that does it."""
    return show(request, scene, "consequences", {"question": question, "form": form}, status=status)


def tidy(request: HttpRequest) -> HttpResponse | None:
    """Without the fields of a form that were left empty: the shorter address, which is kept and passed on."""
    kept = request.GET.copy()
    for name in [name for name, value in kept.items() if not str(value).strip()]:
        del kept[name]
    if len(kept) == len(request.GET):
        return None
    return redirect(f"{request.path}?{kept.urlencode()}" if kept else request.path)


def know_names(scene: Scene) -> dict[str, list[str]]:
    """What may be typed into the fields of a list's filter."""
    people = find_reviewers(scene.project)
    return {"worker": find_worker_names(scene.project), "reviewer": [user.username for user in people]}


def find_page(scene: Scene, name: str, *args: Any) -> str:
    """The address of another page of the project."""
    return reverse(f"console:{name}", args=(scene.project.slug, *args))


def act(request: HttpRequest, done: str, do: Callable[[], object]) -> bool:
    """Do what a button asks and say how it went; True when it was done."""
    try:
        do()
    except TentalisError as error:
        messages.error(request, str(error))
        return False
    messages.success(request, done)
    return True


def fill_in(request: HttpRequest, form: Form, do: Callable[[], object]) -> tuple[Any, int | None]:
    """Do what a filled-in form asks.

    Returns:
        (what came of it, None), or (None, the status to show the form again with, its errors in place).
    """
    if request.method != "POST":
        return None, 200
    if not form.is_valid():
        return None, 400
    try:
        return do(), None
    except TentalisError as error:
        show_error(form, error)
        return None, error.status


def found_or_404(row: Found | None, message: str) -> Found:
    """What was looked for. Raises Http404 in these words where it is not there."""
    if row is None:
        raise Http404(message)
    return row


def leave(scene: Scene, name: str, *args: Any) -> HttpResponse:
    """Send the browser on to another page of the project."""
    return redirect(f"console:{name}", scene.project.slug, *args)


def posted(request: HttpRequest) -> QueryDict | None:
    """What a form was sent with, be it nothing; None when it was only opened."""
    return request.POST if request.method == "POST" else None


def read_number(request: HttpRequest, name: str) -> int | None:
    """A row id out of the query string; None where there is none.

    Raises:
        Http404: it is no number that could be an id.
    """
    text = request.GET.get(name, "")
    if not text:
        return None
    if not (text.isascii() and text.isdigit() and len(text) < 19):
        raise Http404(f"{name} must be a row id")
    return int(text)
