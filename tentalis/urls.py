"""Every path the web answers."""

from django.contrib import admin
from django.urls import include, path
from django.views.generic import RedirectView

handler400 = "apps.base.trouble.show_bad_request"
handler500 = "apps.base.trouble.show_server_error"

# addresses that pages had before: a bookmark still finds them
MOVED = {"returns": "returns", "blockers": "blockers", "dead-letters": "dead-letters"}

urlpatterns = [
    path("", include("apps.base.urls")),
    path("", include("apps.console.urls")),
    *(
        path(f"p/<slug:slug>/{old}/", RedirectView.as_view(pattern_name=f"console:{page}", query_string=True))
        for old, page in MOVED.items()
    ),
    path("api/", include("apps.api.urls")),
    path("bridge/", include("apps.api.bridge_urls")),
    path("admin/", admin.site.urls),
]
