"""Addresses that are told what happens: made, looked after, sent to again."""

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy, ngettext
from django.views.decorators.http import require_http_methods, require_POST

from apps.accounts.rights import Right
from apps.base.errors import TentalisError
from apps.console.forms_webhooks import WebhookForm
from apps.console.selectors.webhooks import find_webhook, show_webhook
from apps.console.views.frame import (
    Scene,
    act,
    fill_in,
    found_or_404,
    leave,
    posted,
    project_view,
    read_number,
    require,
    show,
)
from apps.console.views.training import read_choice
from apps.webhooks import services
from apps.webhooks.models import Delivery, Webhook
from apps.webhooks.selectors import list_webhooks

DELIVERY_STATES = (
    (Delivery.State.PENDING.value, gettext_lazy("Waiting")),
    (Delivery.State.DELIVERED.value, gettext_lazy("Delivered")),
    (Delivery.State.DEAD.value, gettext_lazy("Failed")),
)


@require_http_methods(["GET", "POST"])
@project_view(Right.WEBHOOKS_READ)
def show_webhooks(request: HttpRequest, scene: Scene) -> HttpResponse:
    """The list, and a form for a new one. The new one's secret is in this answer and nowhere else."""
    if request.method == "POST":
        require(scene, Right.WEBHOOKS_WRITE)
    form = WebhookForm(posted(request), is_admin=scene.user.is_superuser)
    made, text = None, ""
    answer, status = fill_in(
        request, form, lambda: services.create_webhook(project=scene.project, by=scene.user, **form.said)
    )
    if status is None:
        made, text = answer
        form = WebhookForm(is_admin=scene.user.is_superuser)
        status = 201
    context = {
        "rows": list_webhooks(scene.project),
        "form": form,
        "made": made,
        "text": text,
        "fragments": {"webhooks"},
    }
    return show(request, scene, "webhooks", context, status=status)


@require_http_methods(["GET", "POST"])
@project_view(Right.WEBHOOKS_READ)
def show_one(request: HttpRequest, scene: Scene, webhook_id: int) -> HttpResponse:
    """What was sent, and a form to change it."""
    webhook = _webhook_or_404(scene, webhook_id)
    form = WebhookForm(posted(request), webhook=webhook, is_admin=scene.user.is_superuser)
    if request.method == "POST":
        require(scene, Right.WEBHOOKS_WRITE)
    _done, status = fill_in(request, form, lambda: services.change_webhook(webhook=webhook, by=scene.user, **form.said))
    if status is None:
        messages.success(request, _("The webhook is changed."))
        return leave(scene, "webhook", webhook_id)
    return _show(request, scene, webhook, form=form, status=status)


@require_POST
@project_view(Right.WEBHOOKS_WRITE)
def switch(request: HttpRequest, scene: Scene, webhook_id: int) -> HttpResponse:
    """Off, or on again: what happens in between is not told."""
    webhook = _webhook_or_404(scene, webhook_id)
    is_active = request.POST.get("is_active") == "1"
    said = _("Events are sent again.") if is_active else _("Paused: no events are sent until you switch it on again.")
    act(request, said, lambda: services.change_webhook(webhook=webhook, by=scene.user, is_active=is_active))
    return leave(scene, "webhook", webhook_id)


@require_POST
@project_view(Right.WEBHOOKS_WRITE)
def rotate(request: HttpRequest, scene: Scene, webhook_id: int) -> HttpResponse:
    """A new secret, shown in this answer and nowhere else."""
    webhook = _webhook_or_404(scene, webhook_id)
    webhook, text = services.rotate_secret(webhook=webhook, by=scene.user)
    form = WebhookForm(webhook=webhook, is_admin=scene.user.is_superuser)
    return _show(request, scene, webhook, form=form, text=text)


@require_POST
@project_view(Right.WEBHOOKS_WRITE)
def try_out(request: HttpRequest, scene: Scene, webhook_id: int) -> HttpResponse:
    webhook = _webhook_or_404(scene, webhook_id)
    act(request, _("A test is on its way; it shows below."), lambda: services.send_test(webhook=webhook, by=scene.user))
    return leave(scene, "webhook", webhook_id)


@require_POST
@project_view(Right.WEBHOOKS_WRITE)
def delete(request: HttpRequest, scene: Scene, webhook_id: int) -> HttpResponse:
    webhook = _webhook_or_404(scene, webhook_id)
    act(request, _("The webhook is deleted."), lambda: services.delete_webhook(webhook=webhook, by=scene.user))
    return leave(scene, "webhooks")


@require_POST
@project_view(Right.WEBHOOKS_WRITE)
def redeliver(request: HttpRequest, scene: Scene, webhook_id: int, delivery_id: int) -> HttpResponse:
    """Send one message again, under its old id."""
    rows = Delivery.objects.select_related("webhook__project")
    delivery = get_object_or_404(rows, webhook=_webhook_or_404(scene, webhook_id), pk=delivery_id)
    act(request, _("It is sent again."), lambda: services.redeliver(delivery=delivery, by=scene.user))
    return leave(scene, "webhook", webhook_id)


@require_POST
@project_view(Right.WEBHOOKS_WRITE)
def redeliver_dead(request: HttpRequest, scene: Scene, webhook_id: int) -> HttpResponse:
    """Send again whatever was given up."""
    webhook = _webhook_or_404(scene, webhook_id)
    try:
        count = services.redeliver_all(webhook=webhook, by=scene.user)
    except TentalisError as error:
        messages.error(request, str(error))
    else:
        said = ngettext("%(n)d message is sent again.", "%(n)d messages are sent again.", count)
        messages.success(request, said % {"n": count})
    return leave(scene, "webhook", webhook_id)


def _show(
    request: HttpRequest, scene: Scene, webhook: Webhook, *, form: WebhookForm, text: str = "", status: int = 200
) -> HttpResponse:
    state = read_choice(request, "state", Delivery.State.values)
    view = show_webhook(webhook, state=state, before=read_number(request, "before"))
    context = {
        "view": view,
        "webhook": webhook,
        "form": form,
        "text": text,
        "state": state,
        "states": DELIVERY_STATES,
        "older": view.older,
        "fragments": {"webhook"},
    }
    return show(request, scene, "webhook", context, status=status)


def _webhook_or_404(scene: Scene, webhook_id: int) -> Webhook:
    return found_or_404(find_webhook(scene.project, webhook_id), f"no webhook {webhook_id}")
