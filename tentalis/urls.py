"""Every path the web answers."""

from django.contrib import admin
from django.contrib.auth.decorators import login_required
from django.urls import include, path
from django.views.generic import RedirectView

admin.autodiscover()  # here, and not as every process starts: those that answer no browser have no use for it

handler400 = "apps.base.trouble.show_bad_request"
handler500 = "apps.base.trouble.show_server_error"

# addresses that pages had before: a bookmark still finds them
MOVED = {"returns": "console:returns", "blockers": "console:blockers", "dead-letters": "console:dead-letters"}

urlpatterns = [
    path("", include("apps.base.urls")),
    path("", include("apps.operations.urls")),
    path("", include("apps.console.urls")),
    *(
        path(f"p/<slug:slug>/{old}/", login_required(RedirectView.as_view(pattern_name=name, query_string=True)))
        for old, name in MOVED.items()
    ),
    path("api/", include("apps.api.urls")),
    path("bridge/", include("apps.api.bridge_urls")),
    path("admin/", admin.site.urls),
]
