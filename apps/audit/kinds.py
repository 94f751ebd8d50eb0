"""The closed list of what the audit can say. Past tense, dotted: `<subject>.<what happened>`."""

from django.db import models


class Kind(models.TextChoices):
    # accounts
    PROJECT_CREATED = "project.created"
    PROJECT_CHANGED = "project.changed"
    PROJECT_DELETED = "project.deleted"
    MEMBER_ADDED = "member.added"
    MEMBER_CHANGED = "member.changed"
    MEMBER_REMOVED = "member.removed"
    TOKEN_CREATED = "token.created"  # noqa: S105
    TOKEN_CHANGED = "token.changed"  # noqa: S105
    TOKEN_REVOKED = "token.revoked"  # noqa: S105
    USER_CREATED = "user.created"
    USER_SIGNED_IN = "user.signed_in"
    SIGN_IN_FAILED = "user.sign_in_failed"
    ACCESS_DENIED = "access.denied"
    # webhooks
    WEBHOOK_CREATED = "webhook.created"
    WEBHOOK_CHANGED = "webhook.changed"
    WEBHOOK_DELETED = "webhook.deleted"
    WEBHOOK_DISABLED = "webhook.disabled"
    # inference, workers
    PROVIDER_CREATED = "provider.created"
    PROVIDER_CHANGED = "provider.changed"
    PROVIDER_DELETED = "provider.deleted"
    WORKER_CREATED = "worker.created"
    WORKER_CHANGED = "worker.changed"
    WORKER_DELETED = "worker.deleted"
    # tasks
    TASK_SUBMITTED = "task.submitted"
    TASK_STARTED = "task.started"
    TASK_ATTEMPTED = "task.attempted"
    TASK_IN_REVIEW = "task.in_review"
    TASK_LEARNING = "task.learning"
    TASK_DONE = "task.done"
    TASK_FAILED = "task.failed"
    TASK_CANCELLED = "task.cancelled"
    TASK_REPLAYED = "task.replayed"
    # scoring, feedback
    TASK_SCORED = "task.scored"
    REVIEW_OPENED = "review.opened"
    REVIEW_CLAIMED = "review.claimed"
    REVIEW_RELEASED = "review.released"
    REVIEW_CLOSED = "review.closed"
    REVIEW_SKIPPED = "review.skipped"
    REVIEW_EXPIRED = "review.expired"
    REVIEW_ASSIGNED = "review.assigned"
    REVIEW_PASSED_ON = "review.passed_on"
    FEEDBACK_GIVEN = "feedback.given"
    FEEDBACK_UNDONE = "feedback.undone"
    FEEDBACK_RETRACTED = "feedback.retracted"
    FEEDBACK_APPEALED = "feedback.appealed"
    BULK_STARTED = "bulk.started"
    BULK_DONE = "bulk.done"
    BULK_CANCELLED = "bulk.cancelled"
    BULK_UNDOING = "bulk.undoing"
    BULK_UNDONE = "bulk.undone"
    GOLD_ADDED = "gold.added"
    GOLD_REMOVED = "gold.removed"
    RATER_WEIGHED = "rater.weighed"
    # supervision
    PROPOSAL_MADE = "proposal.made"
    PROPOSAL_APPROVED = "proposal.approved"
    PROPOSAL_REJECTED = "proposal.rejected"
    PROPOSAL_EDITED = "proposal.edited"
    PROPOSAL_HINTED = "proposal.hinted"
    PROPOSAL_TAKEN_OVER = "proposal.taken_over"
    PROPOSAL_EXPIRED = "proposal.expired"
    HINT_EXTRACTED = "hint.extracted"
    # conversations
    TURN_CLOSED = "turn.closed"
    TURN_SETTLED = "turn.settled"
    TURN_FAILED = "turn.failed"
    PERSON_FORGOTTEN = "person.forgotten"
    # rollouts, training
    ROLLOUTS_BUILT = "rollouts.built"
    BATCH_OPENED = "batch.opened"
    BATCH_CLOSED = "batch.closed"
    RUN_QUEUED = "run.queued"
    RUN_STARTED = "run.started"
    RUN_RETRIED = "run.retried"
    RUN_SUCCEEDED = "run.succeeded"
    RUN_FAILED = "run.failed"
    RUN_CANCELLED = "run.cancelled"
    # adapters
    ADAPTER_RECORDED = "adapter.recorded"
    ADAPTER_VERIFIED = "adapter.verified"
    ADAPTER_REFUSED = "adapter.refused"
    ADAPTER_DEPLOYED = "adapter.deployed"
    ADAPTER_RETIRED = "adapter.retired"
    VERDICT_GIVEN = "verdict.given"
    DEPLOYMENT_MOVED = "deployment.moved"
    DEPLOYMENT_ROLLED_BACK = "deployment.rolled_back"
    CANARY_STARTED = "canary.started"
    CANARY_ENDED = "canary.ended"
    # skills
    SKILL_CREATED = "skill.created"
    SKILL_CHANGED = "skill.changed"
    # evals, experiments
    DATASET_REGISTERED = "dataset.registered"
    EVAL_FINISHED = "eval.finished"
    EXPERIMENT_FINISHED = "experiment.finished"
    # pipeline
    SEGMENT_DIED = "segment.died"
    SEGMENT_REPLAYED = "segment.replayed"
    # audit
    CHAIN_VERIFIED = "chain.verified"
    # console
    EXPORT_MADE = "export.made"
    EXPORT_SENT = "export.sent"
