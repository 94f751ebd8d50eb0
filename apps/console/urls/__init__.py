"""Paths of the console: the way in here, a project's pages in the modules beside."""

from django.urls import include, path

from apps.console.urls import (
    benchmarks,
    environments,
    house,
    operations,
    proposals,
    providers,
    quality,
    set_up,
    webhooks,
    work,
)
from apps.console.views import entry, signing_in

app_name = "console"

urlpatterns = [
    path("", entry.open_first_page, name="dashboard"),
    path("sign-in/", entry.SignInView.as_view(), name="sign-in"),
    path("sign-in/second-step/", entry.ask_second_factor, name="second-step"),
    path("sign-in/passkey/", entry.take_passkey, name="passkey-sign-in"),
    path("sign-in/passkey/options/", entry.offer_passkey, name="passkey-options"),
    path("sign-out/", signing_in.SignOutView.as_view(), name="sign-out"),
    *house.account_urlpatterns,
    path(
        "p/<slug:slug>/",
        include(
            [
                *benchmarks.urlpatterns,
                *environments.urlpatterns,
                *house.urlpatterns,
                *operations.urlpatterns,
                *proposals.urlpatterns,
                *providers.urlpatterns,
                *quality.urlpatterns,
                *set_up.urlpatterns,
                *webhooks.urlpatterns,
                *work.urlpatterns,
            ]
        ),
    ),
]
