"""Model servers: where models are asked, tried out and paid for."""

from django.urls import path

from apps.console.views import providers

urlpatterns = [
    path("providers/", providers.list_providers, name="provider-list"),
    path("new-provider/", providers.create_provider, name="provider-new"),
    path("providers/<int:provider_id>/", providers.show_provider, name="provider"),
    path("providers/<int:provider_id>/change/", providers.change_provider, name="provider-change"),
    path("providers/<int:provider_id>/test/", providers.test_provider, name="provider-test"),
    path("providers/<int:provider_id>/remove/", providers.remove_provider, name="provider-remove"),
    path("providers/<int:provider_id>/grants/", providers.grant_provider, name="grant"),
    path("providers/<int:provider_id>/grants/<int:grant_id>/", providers.change_grant, name="grant-change"),
    path("providers/<int:provider_id>/grants/<int:grant_id>/revoke/", providers.revoke_grant, name="grant-revoke"),
    path("providers/<int:provider_id>/prices/", providers.set_price, name="price-set"),
    path("providers/<int:provider_id>/prices/<int:price_id>/remove/", providers.remove_price, name="price-remove"),
]
