"""Starting again what stalled. Every finding is a state that is older than its patience; none is remembered here.

What failed for good is not found again: its subject's state says so (its kind's `Fate`), or where that changes none,
it is left out until somebody takes it up (`outbox.selectors.died_last`).
"""

import logging

from apps.adapters.serving import restore_served, unload_drained
from apps.base.errors import TentalisError, log_and_continue
from apps.feedback.finalizing import settle_feedback as settle
from apps.inference.errors import ProviderBusyError, ProviderRefusedError
from apps.outbox.errors import BrokerAwayError
from apps.outbox.relay import free_expired_leases, resend_lost
from apps.pipeline import canary_trials, conversing, flow, trainings
from apps.supervision.services import expire_proposals
from apps.training.cluster import poll_all_jobs
from apps.training.retrying import find_silent_runs

logger = logging.getLogger(__name__)

GRACE_S = 5.0
"""How long a message may take to reach somebody before the queue is looked into."""


def sweep_segments() -> None:
    """Free links whose holder is gone, and send again what reached nobody."""
    if freed := free_expired_leases():
        logger.info("freed %d expired leases", freed)
    try:
        if lost := resend_lost(grace_s=GRACE_S):
            logger.info("sent %d lost messages again", lost)
    except BrokerAwayError as error:
        logger.info("%s", error)


def sweep_reviews() -> None:
    """Let the policy decide about reviews that waited too long."""
    if count := flow.expire_reviews():
        logger.info("%d tasks go on without a review", count)


def sweep_proposals() -> None:
    """Let the rule decide about proposals whose time is up."""
    if found := expire_proposals():
        logger.info("%d proposals were decided by nobody in time", len(found))


def settle_feedback() -> None:
    """Let judgements stand that can no longer be undone."""
    if count := settle():
        logger.info("%d judgements stand", count)


def sweep_runs() -> None:
    """Take up trainings whose box went silent, and send those whose turn has come; none keeps the others from it."""
    for run in find_silent_runs():
        with log_and_continue(f"run {run.pk} was silent, and stays so", Exception):
            logger.warning("run %s was silent: %s", run.pk, flow.wake_silent_run(run))
    flow.adopt_rebuilt()
    trainings.keep_hours()
    trainings.follow_batch_sizes()
    flow.train_waiting()


def sweep_evaluations() -> None:
    """Go on with evaluations of whose tries some came, or came in no time, and with verdicts that waited for those, or
    for people."""
    if count := flow.go_on_waiting():
        logger.info("%d evaluations go on", count)


def label_steps() -> None:
    """Have steps labelled where enough of them are new to train a step scorer."""
    if count := trainings.label_due():
        logger.info("steps of %d workers are being labelled", count)


def tend_cluster() -> None:
    """Ask after the trainings on somebody else's machines."""
    try:
        poll_all_jobs()
    except BrokerAwayError as error:
        logger.info("%s", error)


def sweep_adapters() -> None:
    """Load deployed adapters into a server that was restarted, and free it of those that nobody asks any more.

    Whatever a server or a disk keeps from coming back, what may not serve goes out of service.
    """
    if count := flow.rollback_blocked():
        logger.info("took back %d adapters that may not serve", count)
    with log_and_continue("not everything that should serve does", TentalisError):
        if count := restore_served():
            logger.info("loaded %d adapters again", count)
    if count := unload_drained():
        logger.info("unloaded %d adapters that nobody asks any more", count)


def watch_canaries() -> None:
    """Promote or take back the adapters on trial of which enough was seen."""
    try:
        if count := canary_trials.watch_canaries():
            logger.info("%d canaries began or ended", count)
    except (ProviderBusyError, ProviderRefusedError) as error:
        logger.info("the model server cannot be asked: %s", error)


def cut_sessions() -> None:
    """Look for conversations that went on, or fell silent."""
    if count := conversing.converse():
        logger.info("%d sessions have something new", count)
