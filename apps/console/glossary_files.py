"""Each term of the glossary in the field's words, with the file it stands in; and words that only the code has."""

from collections.abc import Mapping
from typing import NamedTuple


class Place(NamedTuple):
    """What others call it, and the file to open first, from the root of the repository."""

    field: str
    file: str


PLACES: Mapping[str, Place] = {
    "Task": Place("prompt, problem", "apps/tasks/models.py"),
    "Attempt": Place("episode, sample, completion", "apps/tasks/models.py"),
    "Step": Place("reasoning step, tool call", "tentalis/core/steps.py"),
    "Worker": Place("agent, policy", "apps/workers/models.py"),
    "Manager": Place("annotator, rater; LLM judge", "apps/feedback/judges.py"),
    "Score": Place("reward of a step or response", "apps/scoring/models.py"),
    "Verified": Place("verifiable reward (RLVR)", "tentalis/core/scoring/verdicts.py"),
    "Scorer": Place("grader, reward function", "apps/scoring/scorers/__init__.py"),
    "Feedback": Place("annotation, human feedback", "apps/feedback/submit.py"),
    "Hint": Place("privileged information, textual critique", "apps/feedback/hints.py"),
    "Rubric": Place("rubric, annotation guideline", "apps/accounts/models.py"),
    "Annotation queue": Place("annotation queue", "apps/feedback/queue.py"),
    "Control item (gold)": Place("gold question, honeypot", "apps/feedback/gold.py"),
    "Agreement": Place("inter-rater agreement", "tentalis/core/scoring/agreement.py"),
    "Reviewer weight": Place("rater reliability", "apps/calibration/services.py"),
    "Blind review": Place("blinded annotation", "apps/feedback/models.py"),
    "Approval": Place("human in the loop, tool approval", "apps/supervision/services.py"),
    "Rollout": Place("trajectory, rollout", "apps/rollouts/models.py"),
    "Log-prob": Place("token log-probability", "apps/inference/models.py"),
    "Reward": Place("reward, return of an episode", "tentalis/core/learning/rewards.py"),
    "Advantage": Place("advantage", "tentalis/core/learning/advantages.py"),
    "GRPO": Place("GRPO", "tentalis/core/learning/advantages.py"),
    "Batch": Place("training batch", "apps/rollouts/filling.py"),
    "Run": Place("training run", "apps/training/services.py"),
    "Recipe": Place("training config, hyperparameters", "tentalis/core/learning/recipes.py"),
    "Clip": Place("PPO clip", "gpu_workers/learning/losses.py"),
    "KL": Place("KL penalty", "gpu_workers/learning/losses.py"),
    "Entropy": Place("entropy bonus", "gpu_workers/learning/losses.py"),
    "Staleness": Place("off-policyness, policy lag", "tentalis/core/learning/recipes.py"),
    "Distillation": Place("on-policy (self-)distillation", "tentalis/core/opd.py"),
    "Preference pair": Place("preference pair (DPO)", "apps/rollouts/pairing.py"),
    "Gain": Place("cost-benefit", "apps/training/cost_benefit.py"),
    "Base model": Place("base model", "gpu_workers/backends/base_models.py"),
    "Adapter": Place("LoRA adapter, checkpoint", "apps/adapters/models.py"),
    "LoRA": Place("LoRA", "gpu_workers/engine/lora.py"),
    "Held-out panel": Place("held-out evaluation set", "apps/adapters/panels.py"),
    "Gate": Place("promotion gate, evaluation gate", "apps/adapters/gating.py"),
    "Candidate": Place("release candidate", "apps/adapters/models.py"),
    "Safe to serve": Place("non-inferiority", "tentalis/core/learning/gate.py"),
    "Proved better": Place("superiority, significant improvement", "tentalis/core/learning/gate.py"),
    "Anchor": Place("reference model of a comparison", "apps/adapters/gating.py"),
    "Confidence interval": Place("confidence interval", "tentalis/core/learning/gate.py"),
    "Canary": Place("canary release", "apps/adapters/canary.py"),
    "Shadow test": Place("shadow deployment", "apps/adapters/shadows.py"),
    "Adapter scale check": Place("strength sweep over LoRA alpha", "apps/adapters/strength_sweep.py"),
    "Under suspicion": Place("quarantine", "tentalis/core/learning/quarantine_checks.py"),
    "Deployment": Place("deployment", "apps/adapters/services.py"),
    "Session": Place("conversation, thread, trace", "apps/conversations/segmentation.py"),
    "Call (exchange)": Place("LLM call, request and response", "apps/inference/models.py"),
    "Model server": Place("inference server, provider", "apps/inference/providers.py"),
    "Gateway": Place("LLM gateway, proxy", "apps/gateway/server.py"),
    "Training machine": Place("GPU worker, trainer", "gpu_workers/runner.py"),
    "Job": Place("Celery task, background job", "apps/outbox/registry.py"),
    "Outbox": Place("transactional outbox", "apps/outbox/relay.py"),
    "Lease": Place("lease, visibility timeout", "apps/outbox/services.py"),
    "Failed work (dead letter)": Place("dead-letter queue", "apps/outbox/selectors.py"),
    "Audit": Place("audit log, hash chain", "apps/audit/chain.py"),
    "Webhook": Place("webhook", "apps/webhooks/sending.py"),
    "Scope": Place("token scope, permission", "apps/accounts/rights.py"),
    "Manifest": Place("manifest, adapter card", "tentalis/core/contracts.py"),
}

IN_CODE: Mapping[str, Place] = {
    "Forget, forgetting": Place("erase a person (GDPR)", "apps/erasure/erase.py"),
    "Rebuild": Place("unlearning by exact retraining", "apps/training/rebuilding.py"),
    "Barred": Place("blocked for ever", "apps/adapters/blocking.py"),
    "Preflight G1 to G12": Place("sanity checks before and after a run", "tentalis/core/learning/preflight_rules.py"),
    "Publication checks": Place("held-out check of the trainer", "gpu_workers/backends/publication_checks.py"),
    "Contamination": Place("train/test overlap, leakage", "apps/training/contamination.py"),
    "Training example": Place("sample with advantages", "gpu_workers/backends/training_example.py"),
    "Training loop": Place("trainer", "gpu_workers/backends/standalone.py"),
    "Chat template": Place("render messages to tokens", "gpu_workers/engine/text.py"),
    "Loaded model": Place("served model, LoRA slot", "gpu_workers/engine/models.py"),
    "Link, delta": Place("prefix sharing of conversations", "tentalis/core/conversation_delta.py"),
    "Turn": Place("turn of a conversation", "apps/conversations/segmentation.py"),
    "Signal": Place("implicit feedback of a next state", "apps/conversations/signal_extraction.py"),
    "Standing, settled": Place("final after the undo window", "apps/feedback/finalizing.py"),
    "Segment, link": Place("workflow, workflow step", "apps/pipeline/flow.py"),
    "Desk": Place("built-in demo environment", "tentalis/core/desk.py"),
}
