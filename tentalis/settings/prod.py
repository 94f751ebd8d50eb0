"""Real servers. The start stops where something a production needs is missing."""

from tentalis.settings.base import *  # noqa: F403
from tentalis.settings.base import DEBUG, SECRET_KEY, TENTALIS

REQUIRED = ("SECRET_KEY", "DATABASE_URL", "REDIS_URL")
if missing := [f"TENTALIS_{name}" for name in REQUIRED if not TENTALIS[name]]:
    raise SystemExit(f"tentalis: {', '.join(missing)} must be set in production")
if DEBUG:
    raise SystemExit("tentalis: TENTALIS_DEBUG must be false in production, found true")
if len(SECRET_KEY) < 50:
    raise SystemExit(f"tentalis: TENTALIS_SECRET_KEY must have 50 characters or more, found {len(SECRET_KEY)}")
