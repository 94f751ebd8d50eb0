"""What every installation shares."""

import sys
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from csp.constants import NONCE, NONE, SELF

from tentalis.env import EnvironmentVariableError, read_environment
from tentalis.garbage import load_sparely, spare_imports
from tentalis.settings.timeouts import choose_timeouts, find_process, say_options

spare_imports()
load_sparely()

try:
    TENTALIS: dict[str, Any] = read_environment()
except EnvironmentVariableError as error:
    raise SystemExit(f"tentalis: {error}") from None

BASE_DIR = Path(__file__).resolve().parent.parent.parent
HOME: Path = TENTALIS["HOME"]
ARTIFACTS: Path = TENTALIS["ARTIFACTS"] or HOME / "artifacts"
SANDBOXES: Path = TENTALIS["SANDBOXES"] or HOME / "sandboxes"
BROWSER: Path | None = TENTALIS["BROWSER"]
ENGINE_URL: str = TENTALIS["ENGINE_URL"] or f"http://127.0.0.1:{TENTALIS['ENGINE_PORT']}"

INSTALLED_APPS = [
    "django.contrib.admin.apps.SimpleAdminConfig",
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.messages",
    "django.contrib.staticfiles",
    "django.contrib.humanize",
    "django.contrib.postgres",
    "channels",
    "rest_framework",
    "django_filters",
    "drf_spectacular",
    "django_htmx",
    "csp",
    "pgtrigger",
    "apps.base",
    "apps.accounts",
    "apps.audit",
    "apps.outbox",
    "apps.webhooks",
    "apps.inference",
    "apps.judges",
    "apps.workers",
    "apps.skills",
    "apps.checks",
    "apps.worlds",
    "apps.adapters",
    "apps.tasks",
    "apps.calibration",
    "apps.supervision",
    "apps.scoring",
    "apps.feedback",
    "apps.rollouts",
    "apps.gate",
    "apps.regrading",
    "apps.conversations",
    "apps.training",
    "apps.evals",
    "apps.operations",
    "apps.pipeline",
    "apps.api",
    "apps.gateway",
    "apps.console",
]

MIDDLEWARE = [
    "django.middleware.security.SecurityMiddleware",
    "whitenoise.middleware.WhiteNoiseMiddleware",
    "apps.base.middleware.RequestIdMiddleware",
    "csp.middleware.CSPMiddleware",
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.middleware.common.CommonMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "apps.console.middleware.PreferenceMiddleware",
    "django.contrib.messages.middleware.MessageMiddleware",
    "django.middleware.clickjacking.XFrameOptionsMiddleware",
    "django_htmx.middleware.HtmxMiddleware",
    "apps.console.middleware.ProofMiddleware",
    "apps.base.middleware.DatabaseTroubleMiddleware",
]

ROOT_URLCONF = "tentalis.urls"
ASGI_APPLICATION = "tentalis.asgi.application"
WSGI_APPLICATION = "tentalis.wsgi.application"

TEMPLATES = [
    {
        "BACKEND": "django.template.backends.django.DjangoTemplates",
        "DIRS": [BASE_DIR / "templates"],
        "APP_DIRS": True,
        "OPTIONS": {
            "context_processors": [
                "django.template.context_processors.request",
                "django.contrib.auth.context_processors.auth",
                "django.contrib.messages.context_processors.messages",
                "apps.console.alarms.show_alarms",
            ],
        },
    },
]
FORM_RENDERER = "apps.base.forms.PlainRenderer"


PROCESS = find_process(TENTALIS["PROCESS"], sys.argv)


def database_from(url: str) -> dict[str, Any]:
    """Django's DATABASES entry for a postgres:// URL."""
    parts = urlsplit(url)
    return {
        "ENGINE": "django.db.backends.postgresql",
        "HOST": parts.hostname,
        "PORT": str(parts.port or 5432),
        "NAME": parts.path.lstrip("/") or "tentalis",
        "USER": unquote(parts.username or ""),
        "PASSWORD": unquote(parts.password or ""),
        "CONN_MAX_AGE": 0,
        "CONN_HEALTH_CHECKS": True,
        # a web request without the pool opens a connection each: 4 times the CPU, most of it the SCRAM handshake
        "OPTIONS": {
            "pool": {"min_size": 1, "max_size": 24, "timeout": 10},
            "options": say_options(choose_timeouts(PROCESS, TENTALIS)),
        },
    }


def mail_from(url: str | None) -> dict[str, Any]:
    """Django's EMAIL_ settings for an smtp:// (with STARTTLS where there is a password) or smtps:// URL."""
    if not url:
        return {"EMAIL_BACKEND": "django.core.mail.backends.dummy.EmailBackend"}
    parts = urlsplit(url)
    return {
        "EMAIL_HOST": parts.hostname,
        "EMAIL_PORT": parts.port or (465 if parts.scheme == "smtps" else 25),
        "EMAIL_HOST_USER": unquote(parts.username or ""),
        "EMAIL_HOST_PASSWORD": unquote(parts.password or ""),
        "EMAIL_USE_SSL": parts.scheme == "smtps",
        "EMAIL_USE_TLS": parts.scheme == "smtp" and bool(parts.password),
    }


globals().update(mail_from(TENTALIS["EMAIL_URL"]))
EMAIL_TIMEOUT = 10
DEFAULT_FROM_EMAIL: str = TENTALIS["EMAIL_FROM"]

DATABASE_URL: str = TENTALIS["DATABASE_URL"] or f"postgres://tentalis@127.0.0.1:{TENTALIS['POSTGRES_PORT']}/tentalis"
REDIS_URL: str = TENTALIS["REDIS_URL"] or f"redis://127.0.0.1:{TENTALIS['REDIS_PORT']}/0"
DATABASES = {"default": database_from(DATABASE_URL)}
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"

SECRET_KEY: str = TENTALIS["SECRET_KEY"] or ""
DEBUG: bool = TENTALIS["DEBUG"]
ALLOWED_HOSTS: list[str] = TENTALIS["ALLOWED_HOSTS"]
CSRF_TRUSTED_ORIGINS: list[str] = TENTALIS["CSRF_TRUSTED_ORIGINS"]

AUTH_USER_MODEL = "accounts.User"
AUTH_PASSWORD_VALIDATORS = [
    {"NAME": "django.contrib.auth.password_validation.UserAttributeSimilarityValidator"},
    {"NAME": "django.contrib.auth.password_validation.MinimumLengthValidator", "OPTIONS": {"min_length": 10}},
    {"NAME": "django.contrib.auth.password_validation.CommonPasswordValidator"},
    {"NAME": "django.contrib.auth.password_validation.NumericPasswordValidator"},
    {"NAME": "apps.accounts.passwords.EndsWhatItOpened"},
]
PASSWORD_HASHERS = [
    "apps.accounts.hashing.PatientArgon2Hasher",
    "django.contrib.auth.hashers.PBKDF2PasswordHasher",
]
LOGIN_URL = "console:sign-in"
LOGIN_REDIRECT_URL = "console:dashboard"
LOGOUT_REDIRECT_URL = "console:sign-in"

LANGUAGE_CODE = "en"
TIME_ZONE = "UTC"
USE_I18N = False
USE_TZ = True

STATIC_URL = "static/"
STATIC_ROOT: Path | None = BASE_DIR / "staticfiles"
STATICFILES_DIRS = [BASE_DIR / "static"]
STORAGES = {
    "default": {"BACKEND": "django.core.files.storage.FileSystemStorage"},
    "staticfiles": {"BACKEND": "whitenoise.storage.CompressedManifestStaticFilesStorage"},
}

# the browser
CONTENT_SECURITY_POLICY = {
    "DIRECTIVES": {
        "default-src": [NONE],
        "script-src": [SELF, NONCE],
        "style-src": [SELF],
        "img-src": [SELF, "data:"],
        "connect-src": [SELF],
        "font-src": [SELF],
        "form-action": [SELF],
        "base-uri": [NONE],
        "frame-ancestors": [NONE],
        "require-trusted-types-for": ["'script'"],
        "trusted-types": ["htmx"],
    }
}
SECURE_REFERRER_POLICY = "same-origin"
SECURE_CROSS_ORIGIN_OPENER_POLICY = "same-origin"
SESSION_ENGINE = "apps.accounts.browser_sessions"
SESSION_COOKIE_HTTPONLY = True
SESSION_COOKIE_SAMESITE = "Lax"
SESSION_SERIALIZER = "django.contrib.sessions.serializers.JSONSerializer"
X_FRAME_OPTIONS = "DENY"
DATA_UPLOAD_MAX_NUMBER_FIELDS = 10_000  # a review of 64 attempts has that many, where no script leaves out the empty
SECURE_REDIRECT_EXEMPT = [r"^metrics$", r"^readyz$"]  # asked from inside, past the proxy that has the certificate
if TENTALIS["HTTPS"]:
    SECURE_SSL_REDIRECT = True
    SECURE_PROXY_SSL_HEADER = ("HTTP_X_FORWARDED_PROTO", "https")
    SECURE_HSTS_SECONDS = 31_536_000
    SECURE_HSTS_INCLUDE_SUBDOMAINS = True
    SECURE_HSTS_PRELOAD = True
    SESSION_COOKIE_SECURE = True
    CSRF_COOKIE_SECURE = True

CHANNEL_LAYERS = {
    "default": {
        "BACKEND": "channels_redis.pubsub.RedisPubSubChannelLayer",
        "CONFIG": {"hosts": [REDIS_URL], "prefix": "tentalis:live"},
    }
}

# the queue: a message is a nudge, the row is the truth; nothing waits in the broker and nothing is stored in it
CELERY_BROKER_URL = REDIS_URL
CELERY_TASK_ACKS_LATE = True
CELERY_TASK_REJECT_ON_WORKER_LOST = True
CELERY_TASK_IGNORE_RESULT = True
CELERY_TASK_SERIALIZER = "json"
CELERY_ACCEPT_CONTENT = ["json"]
CELERY_TASK_DEFAULT_QUEUE = "control"
CELERY_TASK_CREATE_MISSING_QUEUES = True
CELERY_TASK_PUBLISH_RETRY_POLICY = {"max_retries": 1, "interval_start": 0, "interval_step": 0.2, "interval_max": 0.5}
CELERY_WORKER_PREFETCH_MULTIPLIER = 1
CELERY_WORKER_ENABLE_REMOTE_CONTROL = False  # whoever reaches the broker could stop every process
CELERY_WORKER_SEND_TASK_EVENTS = False
CELERY_WORKER_HIJACK_ROOT_LOGGER = False
CELERY_BROKER_CONNECTION_RETRY_ON_STARTUP = True
CELERY_BROKER_CONNECTION_MAX_RETRIES = None
CELERY_BROKER_TRANSPORT_OPTIONS = {
    "global_keyprefix": "tentalis:",
    "visibility_timeout": 3600,
    "unacked_restore_interval": 10,
    "unacked_restore_throttle": 1,
    "unacked_restore_limit": 1000,
    "socket_timeout": 30,
    "socket_connect_timeout": 5,
    "socket_keepalive": True,
    "health_check_interval": 10,
}
CELERY_TASK_ROUTES = {
    "tasks.play": {"queue": "episodes"},
    "tasks.*": {"queue": "workers"},
    "scoring.*": {"queue": "scorers"},
    "worlds.*": {"queue": "scorers"},
    "regrading.*": {"queue": "scorers"},
    "calibration.*": {"queue": "scorers"},
    "feedback.extract_hint": {"queue": "hints"},
    "conversations.hear": {"queue": "hints"},
    "feedback.open_review": {"queue": "gates"},
    "supervision.decide": {"queue": "gates"},
    "adapters.*": {"queue": "gates"},
    "evals.*": {"queue": "gates"},
    "training.ask*": {"queue": "gates"},
    "training.gate_*": {"queue": "gates"},
    "training.meta_train": {"queue": "gates"},
}

REST_FRAMEWORK = {
    "DEFAULT_AUTHENTICATION_CLASSES": [
        "apps.api.authentication.TokenAuthentication",
        "rest_framework.authentication.SessionAuthentication",
    ],
    "DEFAULT_PERMISSION_CLASSES": ["apps.api.permissions.HasScope"],
    "DEFAULT_PAGINATION_CLASS": "apps.api.pagination.CursorPagination",
    "DEFAULT_FILTER_BACKENDS": ["django_filters.rest_framework.DjangoFilterBackend"],
    "DEFAULT_RENDERER_CLASSES": ["rest_framework.renderers.JSONRenderer"],
    "DEFAULT_PARSER_CLASSES": ["rest_framework.parsers.JSONParser"],
    "DEFAULT_SCHEMA_CLASS": "drf_spectacular.openapi.AutoSchema",
    "EXCEPTION_HANDLER": "apps.api.problems.problem_response",
    "TEST_REQUEST_DEFAULT_FORMAT": "json",
    "COERCE_DECIMAL_TO_STRING": False,
}
SPECTACULAR_SETTINGS = {
    "TITLE": "Tentalis",
    "DESCRIPTION": "Agents get better at your work because a manager reviews it.",
    "VERSION": "1",
    "OAS_VERSION": "3.1.0",
    "SERVE_INCLUDE_SCHEMA": False,
    "SCHEMA_PATH_PREFIX": "/api/v1",
    "ENFORCE_NON_BLANK_FIELDS": True,
    "COMPONENT_SPLIT_REQUEST": True,
    "POSTPROCESSING_HOOKS": ["drf_spectacular.hooks.postprocess_schema_enums", "apps.api.schema.allow_anything"],
    "ENUM_NAME_OVERRIDES": {
        "WorkerKindEnum": "apps.workers.kinds.kind_choices",
        "TaskStateEnum": "apps.tasks.models.Task.State",
        "AttemptStateEnum": "apps.tasks.models.Attempt.State",
        "RunStateEnum": "apps.training.models.TrainingRun.State",
        "FeedbackSourceEnum": "apps.feedback.models.Feedback.Source",
        "EnvironmentEnum": "apps.worlds.registry.name_choices",
        "RoleEnum": "apps.accounts.models.Role",
        "InvitationStateEnum": "apps.accounts.models.Invitation.State",
        "MessageRoleEnum": "apps.api.serializers.bridge.ROLES",
        "ResultStatusEnum": "apps.api.serializers.bridge.RESULTS",
        "ProviderKindEnum": "apps.inference.provider_kinds.CHOICES",
        "ReadingEnum": "apps.api.serializers.learning.READINGS",
        "RunPurposeEnum": "apps.training.models.TrainingRun.Purpose",
        "ReviewPurposeEnum": "apps.api.serializers.judgement.PURPOSES",
        "TaskFormEnum": "apps.api.serializers.work.TASK_FORMS",
        "RowFormEnum": "apps.api.serializers.benchmarks.ROW_FORMS",
        "ProbeVerdictEnum": "apps.judges.models.JudgeProbe.Verdict",
        "SplitEnum": "apps.evals.models.Item.Split",
        "RepoTaskSplitEnum": "apps.api.serializers.worlds.SPLITS",
    },
}

LOGGING = {
    "version": 1,
    "disable_existing_loggers": False,
    "formatters": {
        "plain": {
            "()": "apps.inference.redaction.RedactingFormatter",
            "format": "{asctime} {levelname:<7} {name}: {message}",
            "style": "{",
        }
    },
    "handlers": {"console": {"class": "logging.StreamHandler", "formatter": "plain"}},
    "root": {"handlers": ["console"], "level": TENTALIS["LOG_LEVEL"]},
    "loggers": {
        "httpx": {"level": "WARNING"},
        "celery.worker.strategy": {"level": "WARNING"},
        "celery.app.trace": {"level": "WARNING"},
    },
}

FILTERS_EMPTY_CHOICE_LABEL = "Any"
