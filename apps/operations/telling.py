"""Alarms by mail, to the addresses of `TENTALIS_ALARM_EMAILS`; nothing where there are none."""

import logging
from smtplib import SMTPDataError, SMTPRecipientsRefused, SMTPSenderRefused

from django.conf import settings
from django.core.mail import EmailMessage
from django.db.models import F

from apps.operations.models import Alarm

logger = logging.getLogger(__name__)

MOST_AT_ONCE = 20
REFUSED = (SMTPDataError, SMTPRecipientsRefused, SMTPSenderRefused, ValueError)
"""What is wrong with one mail, and maybe not with the next."""


def tell_all() -> int:
    """One mail for each alarm that was opened or closed since; how many. What fails is sent the next time, and keeps no
    other from being sent.

    Raises:
        OSError: the mail server takes none (`smtplib.SMTPException` is one).
    """
    addresses: list[str] = settings.TENTALIS["ALARM_EMAILS"]
    if not addresses:
        return 0
    sent = 0
    for alarm in Alarm.objects.exclude(told=F("state")).order_by("pk")[:MOST_AT_ONCE]:
        is_over = alarm.state == Alarm.State.CLOSED
        subject = f"[Tentalis] {'over: ' if is_over else ''}{alarm}"
        times = f"since {alarm.created_at:%Y-%m-%d %H:%M} UTC"
        if alarm.closed_at is not None:
            times += f", over at {alarm.closed_at:%H:%M} UTC"
        try:
            EmailMessage(subject, f"{alarm.words}\n\n{times}\n", to=addresses).send()
        except REFUSED:
            logger.exception("the mail of alarm %s was refused", alarm)
            continue
        Alarm.objects.filter(pk=alarm.pk, state=alarm.state).update(told=alarm.state)
        sent += 1
    return sent
