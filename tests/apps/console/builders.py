"""Who asks the console in its tests."""

from django.test import Client

from apps.accounts.models import User


def sign_in(user: User) -> Client:
    client = Client()
    client.force_login(user)
    return client
