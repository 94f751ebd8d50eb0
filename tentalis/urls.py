"""Every path the web answers."""

from django.contrib import admin
from django.urls import include, path

handler400 = "apps.base.trouble.show_bad_request"
handler500 = "apps.base.trouble.show_server_error"

urlpatterns = [
    path("", include("apps.base.urls")),
    path("", include("apps.console.urls")),
    path("api/", include("apps.api.urls")),
    path("bridge/", include("apps.api.bridge_urls")),
    path("admin/", admin.site.urls),
]
