"""A person's own machine: what `tentalis up` and `make demo` run."""

from tentalis.settings.base import *  # noqa: F403
from tentalis.settings.base import SECRET_KEY as GIVEN_KEY

SECRET_KEY = GIVEN_KEY or "only-for-management-commands-without-a-home"

# static files come straight from their sources: nothing has to be collected before the first start
STATIC_ROOT = None
WHITENOISE_USE_FINDERS = True
STORAGES = {
    "default": {"BACKEND": "django.core.files.storage.FileSystemStorage"},
    "staticfiles": {"BACKEND": "django.contrib.staticfiles.storage.StaticFilesStorage"},
}
