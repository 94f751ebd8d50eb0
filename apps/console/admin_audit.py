"""The audit in Django's admin: filtered, followed to its subjects, taken home, its chain verified; never changed."""

from typing import Any

from django.contrib import admin, messages
from django.core.exceptions import PermissionDenied
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.urls import NoReverseMatch, URLPattern, path, reverse
from django.utils.html import format_html
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from apps.accounts.models import Project, User
from apps.accounts.rights import ROLE_RIGHTS, Right
from apps.audit.chain import find_chain_status, verify_next
from apps.audit.kinds import Kind
from apps.audit.models import AuditEntry
from apps.audit.services import record
from apps.base.admin import ReadOnlyAdmin
from apps.base.streaming import stream
from apps.base.writers import WRITERS
from apps.console.exports.sources import AUDIT_COLUMNS, read_entries

VERIFIED_AT_ONCE = 20_000

# model name in an entry -> app label in the admin's addresses
APP_LABELS = {
    "user": "accounts", "project": "accounts", "member": "accounts", "apitoken": "accounts", "provider": "inference",
    "worker": "workers", "ensemble": "workers",
    "task": "tasks", "review": "feedback", "feedback": "feedback", "hint": "feedback",
    "batch": "rollouts", "trainingrun": "training", "adapter": "adapters", "verdict": "adapters",
    "deployment": "adapters", "segment": "outbox", "proposal": "supervision", "auditseal": "audit",
}  # fmt: skip


def find_audited_projects(user: Any) -> "QuerySet[Project]":
    """Projects whose audit a user may read: all of them for a superuser."""
    if user.is_active and user.is_superuser:
        return Project.objects.all()
    roles = [role for role, rights in ROLE_RIGHTS.items() if Right.AUDIT_READ in rights]
    return (
        Project.objects.filter(members__user=user.pk, members__role__in=roles)
        if user.is_active
        else Project.objects.none()
    )


class ProjectFilter(admin.SimpleListFilter):
    """By project; an entry knows only its number."""

    title = gettext_lazy("project")
    parameter_name = "project_id"

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, str]]:
        return [
            (str(project.pk), project.name) for project in find_audited_projects(request.user).order_by("name")[:200]
        ]

    def queryset(self, request: HttpRequest, queryset: "QuerySet[AuditEntry]") -> "QuerySet[AuditEntry]":
        value = self.value()
        return queryset.filter(project_id=int(value)) if value and value.isdigit() else queryset


class KindFilter(admin.SimpleListFilter):
    """By what happened: the closed list, read from no row."""

    title = gettext_lazy("what happened")
    parameter_name = "kind"

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, str]]:
        return [(kind, kind.replace(".", " ").replace("_", " ")) for kind in Kind.values]

    def queryset(self, request: HttpRequest, queryset: "QuerySet[AuditEntry]") -> "QuerySet[AuditEntry]":
        return queryset.filter(kind=self.value()) if self.value() else queryset


@admin.register(AuditEntry)
class AuditEntryAdmin(ReadOnlyAdmin):
    """For superusers the whole installation's; for others that of the projects whose audit their role may read."""

    list_display = ["id", "at", "kind", "subject", "actor", "project"]
    list_filter = [("at", admin.DateFieldListFilter), ProjectFilter, KindFilter]
    search_fields = ["=actor", "=subject_id"]
    search_help_text = gettext_lazy("Who acted, such as user:alice, or the number of the subject.")
    ordering = ["-id"]
    sortable_by = ["id"]
    change_list_template = "admin/audit/auditentry/change_list.html"

    def has_module_permission(self, request: HttpRequest) -> bool:
        return self.has_view_permission(request)

    def has_view_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        user: Any = request.user
        return bool(user.is_active and (user.is_superuser or find_audited_projects(user).exists()))

    def get_queryset(self, request: HttpRequest) -> "QuerySet[AuditEntry]":
        entries = super().get_queryset(request)
        user: Any = request.user
        if user.is_superuser:
            return entries
        return entries.filter(project_id__in=list(find_audited_projects(user).values_list("pk", flat=True)))

    def get_list_display(self, request: HttpRequest) -> Any:
        """Subjects lead to their rows for those who may see these; others read their names."""
        user: Any = request.user
        return [name if name != "subject" or user.is_superuser else "subject_name" for name in self.list_display]

    def get_urls(self) -> list[URLPattern]:
        wrap = self.admin_site.admin_view
        own = [
            path("verify/", wrap(self.verify), name="audit_auditentry_verify"),
            path("export/", wrap(self.export), name="audit_auditentry_export"),
        ]
        return own + super().get_urls()

    def changelist_view(self, request: HttpRequest, extra_context: Any = None) -> HttpResponse:
        context = {"chain": find_chain_status(), "query": request.GET.urlencode(), **(extra_context or {})}
        return super().changelist_view(request, context)

    def verify(self, request: HttpRequest) -> HttpResponse:
        """Verify the next stretch of the chain; the command does all of it."""
        user = self._require_post(request)
        report = verify_next(by=user.handle, limit=VERIFIED_AT_ONCE)
        if report is None:
            messages.info(request, _("Nothing new has a place in the chain."))
        elif report.is_clean:
            messages.success(
                request, _("%(n)d places verified: every entry is as it was written.") % {"n": report.sealed}
            )
        else:
            messages.error(request, _("The chain is broken: %(fault)s") % {"fault": report.faults[0]})
        return HttpResponseRedirect(reverse("admin:audit_auditentry_changelist"))

    def export(self, request: HttpRequest) -> HttpResponse:
        """What the list's filters leave, with each entry's place in the chain. It goes on record itself."""
        user = self._require_post(request)
        format = request.POST.get("format", "")
        if format not in WRITERS:
            raise PermissionDenied(f"format: wanted one of {', '.join(WRITERS)}, found {format!r}")
        entries = self.get_changelist_instance(request).get_queryset(request).order_by()
        record(
            Kind.EXPORT_MADE,
            by=user.handle,
            payload={"source": "audit", "format": format, "filters": dict(request.GET.items())},
        )
        write, media_type = WRITERS[format]
        parts = write(read_entries(entries), AUDIT_COLUMNS)
        return stream(request, parts, media_type=media_type, filename=f"audit.{format}")  # type: ignore[return-value]

    @admin.display(description=gettext_lazy("subject"))
    def subject(self, entry: AuditEntry) -> str:
        """Links to the row the entry is about, as long as its kind has a page here."""
        name = self.subject_name(entry)
        label = APP_LABELS.get(entry.subject_type, "")
        try:
            page = reverse(f"admin:{label}_{entry.subject_type}_change", args=[entry.subject_id])
        except NoReverseMatch:
            return name
        return format_html('<a href="{}">{}</a>', page, name)

    @admin.display(description=gettext_lazy("subject"))
    def subject_name(self, entry: AuditEntry) -> str:
        return f"{entry.subject_type} {entry.subject_id}" if entry.subject_id is not None else entry.subject_type

    @admin.display(description=gettext_lazy("project"))
    def project(self, entry: AuditEntry) -> str:
        return str(entry.project_id or "–")

    def _require_post(self, request: HttpRequest) -> User:
        user: Any = request.user
        if request.method != "POST" or not self.has_view_permission(request):
            raise PermissionDenied("This takes a form of the audit's list.")
        return user  # type: ignore[no-any-return]
