"""Alarms by mail, to the addresses of `TENTALIS_ALARM_EMAILS`; nothing where there are none."""

import logging
from datetime import timedelta
from smtplib import SMTPDataError, SMTPRecipientsRefused, SMTPResponseException, SMTPSenderRefused

from django.conf import settings
from django.core.mail import EmailMessage
from django.db.models import F
from django.db.models.functions import Now

from apps.base.texts import make_storable
from apps.operations.models import MAIL_FAULT_CHARS, MOST_MAIL_TRIES, Alarm
from tentalis.core.backoff import grow_wait

logger = logging.getLogger(__name__)

MOST_AT_ONCE = 20
FIRST_WAIT_S, LONGEST_WAIT_S = 60.0, 1800.0
"""Before a mail that was refused is sent again."""
REFUSED = (SMTPDataError, SMTPRecipientsRefused, SMTPSenderRefused, ValueError)
"""What is wrong with one mail, and maybe not with the next."""


def tell_all() -> int:
    """One mail for each alarm that was opened or closed since; how many. One that is refused keeps no other from being
    sent: it goes again ever later, behind those that were refused less often, and after `MOST_MAIL_TRIES` no more.

    Raises:
        OSError: the mail server takes none (`smtplib.SMTPException` is one); all are sent the next time.
    """
    addresses: list[str] = settings.TENTALIS["ALARM_EMAILS"]
    if not addresses:
        return 0
    sent = 0
    untold = Alarm.objects.exclude(told=F("state")).filter(mail_tries__lt=MOST_MAIL_TRIES)
    for alarm in untold.exclude(mail_after__gt=Now()).order_by("mail_tries", "pk")[:MOST_AT_ONCE]:
        is_over = alarm.state == Alarm.State.CLOSED
        subject = f"[Tentalis] {'over: ' if is_over else ''}{alarm}"
        times = f"since {alarm.created_at:%Y-%m-%d %H:%M} UTC"
        if alarm.closed_at is not None:
            times += f", over at {alarm.closed_at:%H:%M} UTC"
        try:
            EmailMessage(subject, f"{alarm.words}\n\n{times}\n", to=addresses).send()
        except REFUSED as error:
            logger.exception("the mail of alarm %s was refused", alarm)
            _put_off(alarm, error)
            continue
        Alarm.objects.filter(pk=alarm.pk, state=alarm.state).update(told=alarm.state, mail_fault="")
        sent += 1
    return sent


def _put_off(alarm: Alarm, error: Exception) -> None:
    wait_s = grow_wait(alarm.mail_tries, first_s=FIRST_WAIT_S, cap_s=LONGEST_WAIT_S)
    Alarm.objects.filter(pk=alarm.pk, state=alarm.state).update(
        mail_tries=alarm.mail_tries + 1,
        mail_after=Now() + timedelta(seconds=wait_s),
        mail_fault=make_storable(_say_refusal(error))[:MAIL_FAULT_CHARS],
    )


def _say_refusal(error: Exception) -> str:
    """What the server said, without the addresses that the mail went to."""
    said: tuple[int, bytes | str]
    if isinstance(error, SMTPRecipientsRefused):
        said = next(iter(error.recipients.values()))
    elif isinstance(error, SMTPResponseException):
        said = error.smtp_code, error.smtp_error
    else:
        return str(error)
    code, words = said
    return f"{code} {words.decode(errors='replace') if isinstance(words, bytes) else words}"
