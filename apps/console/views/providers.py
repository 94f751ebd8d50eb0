"""Model servers: listed, added, changed, tried out, priced."""

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404
from django.utils.translation import gettext as _
from django.views.decorators.http import require_GET, require_http_methods, require_POST

from apps.accounts.rights import Right
from apps.base.errors import TentalisError
from apps.console.forms_limits import AllowanceForm
from apps.console.provider_forms import GrantForm, PriceForm, ProviderForm, read_provider
from apps.console.selectors import providers as selectors
from apps.console.views.frame import Scene, act, fill_in, leave, posted, project_view, show
from apps.inference import grants, prices, probes, providers
from apps.inference.models import Price, Provider, ProviderGrant


@require_GET
@project_view(Right.WORKERS_READ)
def list_providers(request: HttpRequest, scene: Scene) -> HttpResponse:
    return show(request, scene, "providers", {"rows": selectors.find_providers(scene.user, scene.project)})


@require_GET
@project_view(Right.WORKERS_READ)
def show_provider(request: HttpRequest, scene: Scene, provider_id: int) -> HttpResponse:
    return _show(request, scene, find_provider_or_404(scene, provider_id))


@require_http_methods(["GET", "POST"])
@project_view(Right.WORKERS_WRITE)
def create_provider(request: HttpRequest, scene: Scene) -> HttpResponse:
    kind = request.GET.get("kind", "")
    if request.method == "POST" and request.POST.get("kind") != kind:
        kind = ""
    form = ProviderForm(posted(request), is_admin=scene.user.is_superuser, kind=kind)
    provider, status = fill_in(
        request, form, lambda: providers.create_provider(project=scene.project, by=scene.user, **form.values)
    )
    if status is None:
        messages.success(request, _("%(name)s is added. Test it now.") % {"name": provider.name})
        if request.GET.get("then") == "connect":
            return leave(scene, "connect")
        return leave(scene, "provider", provider.pk)
    return show(request, scene, "provider_form", {"form": form, "provider": None}, status=status)


@require_http_methods(["GET", "POST"])
@project_view(Right.WORKERS_WRITE)
def change_provider(request: HttpRequest, scene: Scene, provider_id: int) -> HttpResponse:
    provider = find_provider_or_404(scene, provider_id)
    form = ProviderForm(
        posted(request), provider=provider, is_admin=scene.user.is_superuser, initial=read_provider(provider)
    )
    had_key = bool(provider.api_key_sealed)
    changed, status = fill_in(
        request, form, lambda: providers.change_provider(provider=provider, by=scene.user, **form.values)
    )
    if status is None:
        messages.success(request, _("%(name)s is changed.") % {"name": changed.name})
        if had_key and not changed.api_key_sealed:
            messages.warning(request, _("It has no key now: the old one was not given for this address."))
        return leave(scene, "provider", provider.pk)
    return show(request, scene, "provider_form", {"form": form, "provider": provider}, status=status)


@require_POST
@project_view(Right.WORKERS_WRITE)
def test_provider(request: HttpRequest, scene: Scene, provider_id: int) -> HttpResponse:
    provider = find_provider_or_404(scene, provider_id)
    model = request.POST.get("model", "").replace("\x00", "")[:200]
    try:
        probe = probes.probe_provider(provider=provider, by=scene.user, model=model)
    except TentalisError as error:
        messages.error(request, str(error))
    else:
        (messages.success if probe.ok else messages.error)(request, probe.words)
    return leave(scene, "provider", provider.pk)


@require_POST
@project_view(Right.WORKERS_WRITE)
def remove_provider(request: HttpRequest, scene: Scene, provider_id: int) -> HttpResponse:
    provider = find_provider_or_404(scene, provider_id)
    done = _("%(name)s is removed.") % {"name": provider.name}
    if act(request, done, lambda: providers.delete_provider(provider=provider, by=scene.user)):
        return leave(scene, "provider-list")
    return leave(scene, "provider", provider_id)


@require_POST
@project_view(Right.WORKERS_WRITE)
def set_price(request: HttpRequest, scene: Scene, provider_id: int) -> HttpResponse:
    provider = find_provider_or_404(scene, provider_id)
    form = PriceForm(request.POST)
    _done, status = fill_in(
        request, form, lambda: prices.set_price(by=scene.user, provider=provider, **form.cleaned_data)
    )
    if status is None:
        messages.success(request, _("The price counts from now on."))
        return leave(scene, "provider", provider.pk)
    return _show(request, scene, provider, price_form=form, status=status)


@require_POST
@project_view(Right.WORKERS_WRITE)
def remove_price(request: HttpRequest, scene: Scene, provider_id: int, price_id: int) -> HttpResponse:
    provider = find_provider_or_404(scene, provider_id)
    price = get_object_or_404(Price.objects.select_related("provider__project"), provider=provider, pk=price_id)
    act(request, _("The price is taken back."), lambda: prices.remove_price(price=price, by=scene.user))
    return leave(scene, "provider", provider.pk)


@require_POST
@project_view(Right.WORKERS_WRITE)
def grant_provider(request: HttpRequest, scene: Scene, provider_id: int) -> HttpResponse:
    provider = find_provider_or_404(scene, provider_id)
    form = GrantForm(request.POST, provider=provider)
    made, status = fill_in(
        request, form, lambda: grants.grant_provider(provider=provider, by=scene.user, **form.cleaned_data)
    )
    if status is None:
        messages.success(request, _("%(name)s may ask it now.") % {"name": made.project.slug})
        return leave(scene, "provider", provider.pk)
    return _show(request, scene, provider, grant_form=form, status=status)


@require_POST
@project_view(Right.WORKERS_WRITE)
def change_grant(request: HttpRequest, scene: Scene, provider_id: int, grant_id: int) -> HttpResponse:
    grant = _grant_or_404(scene, provider_id, grant_id)
    form = AllowanceForm(request.POST)
    if form.is_valid():
        done = _("What %(name)s may use is changed.") % {"name": grant.project.slug}
        act(request, done, lambda: grants.change_grant(grant=grant, by=scene.user, **form.cleaned_data))
    else:
        messages.error(request, _("An allowance is a number above 0, or empty for no limit."))
    return leave(scene, "provider", provider_id)


@require_POST
@project_view(Right.WORKERS_WRITE)
def revoke_grant(request: HttpRequest, scene: Scene, provider_id: int, grant_id: int) -> HttpResponse:
    grant = _grant_or_404(scene, provider_id, grant_id)
    done = _("%(name)s may ask it no more.") % {"name": grant.project.slug}
    act(request, done, lambda: grants.revoke_grant(grant=grant, by=scene.user))
    return leave(scene, "provider", provider_id)


def _grant_or_404(scene: Scene, provider_id: int, grant_id: int) -> ProviderGrant:
    """An admin's are all of a server's grants; anybody else's is the project's own, which they may only read."""
    provider = find_provider_or_404(scene, provider_id)
    rows = provider.grants.select_related("project", "provider")
    rows = rows if scene.user.is_superuser else rows.filter(project=scene.project)
    return get_object_or_404(rows, pk=grant_id)


def _show(
    request: HttpRequest,
    scene: Scene,
    provider: Provider,
    *,
    price_form: PriceForm | None = None,
    grant_form: GrantForm | None = None,
    status: int = 200,
) -> HttpResponse:
    may_grant = scene.user.is_superuser and provider.project_id is None
    context = {
        "view": selectors.show_provider(provider, scene.user, scene.project),
        "provider": provider,
        "form": price_form or PriceForm(),
        "grant_form": (grant_form or GrantForm(provider=provider)) if may_grant else None,
        "may_grant": may_grant,
        "may_change": scene.may(Right.WORKERS_WRITE) and (provider.project_id is not None or scene.user.is_superuser),
    }
    return show(request, scene, "provider", context, status=status)


def find_provider_or_404(scene: Scene, provider_id: int) -> Provider:
    return get_object_or_404(selectors.seen_by(scene.user, scene.project), pk=provider_id)
