"""The tests: real Postgres and Redis, no connection pool (an open one blocks dropping the test database)."""

from tentalis.settings.base import *  # noqa: F403
from tentalis.settings.base import DATABASE_URL, INSTALLED_APPS, database_from

SECRET_KEY = "tests-sign-with-this-and-with-nothing-else-0123456789"  # noqa: S105
DATABASES = {"default": database_from(DATABASE_URL) | {"OPTIONS": {}}}
PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]
CHANNEL_LAYERS = {"default": {"BACKEND": "channels.layers.InMemoryChannelLayer"}}
STORAGES = {
    "default": {"BACKEND": "django.core.files.storage.FileSystemStorage"},
    "staticfiles": {"BACKEND": "django.contrib.staticfiles.storage.StaticFilesStorage"},
}
INSTALLED_APPS = [*INSTALLED_APPS, "tests.support"]
WHITENOISE_AUTOREFRESH = True  # nothing is collected for tests
