"""Each term of the glossary in the field's words, with the file it stands in; and words that only the code has."""

from collections.abc import Mapping
from typing import NamedTuple


class Pointer(NamedTuple):
    """What others call it, and the file to open first, from the root of the repository."""

    field: str
    file: str


PLACES: Mapping[str, Pointer] = {
    "Task": Pointer("prompt, problem", "apps/tasks/models.py"),
    "Attempt": Pointer("episode, sample, completion", "apps/tasks/models.py"),
    "Step": Pointer("reasoning step, tool call", "tentalis/core/steps.py"),
    "Worker": Pointer("agent, policy", "apps/workers/models.py"),
    "Manager": Pointer("annotator, rater; LLM judge", "apps/feedback/judges.py"),
    "Score": Pointer("reward of a step or response", "apps/scoring/models.py"),
    "Verified": Pointer("verifiable reward (RLVR)", "tentalis/core/scoring/verdicts.py"),
    "Scorer": Pointer("grader, reward function", "apps/scoring/scorers/__init__.py"),
    "Feedback": Pointer("annotation, human feedback", "apps/feedback/submit.py"),
    "Hint": Pointer("privileged information, textual critique", "apps/feedback/hints.py"),
    "Rubric": Pointer("rubric, annotation guideline", "apps/accounts/models.py"),
    "Annotation queue": Pointer("annotation queue", "apps/feedback/queue.py"),
    "Control item (gold)": Pointer("gold question, honeypot", "apps/feedback/gold.py"),
    "Agreement": Pointer("inter-rater agreement", "tentalis/core/scoring/agreement.py"),
    "Reviewer weight": Pointer("rater reliability", "apps/calibration/services.py"),
    "Blind review": Pointer("blinded annotation", "apps/feedback/models.py"),
    "Approval": Pointer("human in the loop, tool approval", "apps/supervision/services.py"),
    "Rollout": Pointer("trajectory, rollout", "apps/rollouts/models.py"),
    "Log-prob": Pointer("token log-probability", "apps/inference/models.py"),
    "Reward": Pointer("reward, return of an episode", "tentalis/core/learning/rewards.py"),
    "Advantage": Pointer("advantage", "tentalis/core/learning/advantages.py"),
    "GRPO": Pointer("GRPO", "tentalis/core/learning/advantages.py"),
    "Batch": Pointer("training batch", "apps/rollouts/filling.py"),
    "Run": Pointer("training run", "apps/training/services.py"),
    "Recipe": Pointer("training config, hyperparameters", "tentalis/core/learning/recipes.py"),
    "Clip": Pointer("PPO clip", "gpu_workers/learning/losses.py"),
    "KL": Pointer("KL penalty", "gpu_workers/learning/losses.py"),
    "Entropy": Pointer("entropy bonus", "gpu_workers/learning/losses.py"),
    "Staleness": Pointer("off-policyness, policy lag", "tentalis/core/learning/recipes.py"),
    "Distillation": Pointer("on-policy (self-)distillation", "tentalis/core/opd.py"),
    "Preference pair": Pointer("preference pair (DPO)", "apps/rollouts/pairing.py"),
    "Gain": Pointer("cost-benefit", "apps/training/cost_benefit.py"),
    "Base model": Pointer("base model", "gpu_workers/backends/base_models.py"),
    "Adapter": Pointer("LoRA adapter, checkpoint", "apps/adapters/models.py"),
    "LoRA": Pointer("LoRA", "gpu_workers/engine/lora.py"),
    "Held-out panel": Pointer("held-out evaluation set", "apps/evals/panels.py"),
    "Gate": Pointer("promotion gate, evaluation gate", "apps/gate/gating.py"),
    "Candidate": Pointer("release candidate", "apps/adapters/models.py"),
    "Safe to serve": Pointer("non-inferiority", "tentalis/core/learning/gate.py"),
    "Proved better": Pointer("superiority, significant improvement", "tentalis/core/learning/gate.py"),
    "Anchor": Pointer("reference model of a comparison", "apps/gate/gating.py"),
    "Confidence interval": Pointer("confidence interval", "tentalis/core/learning/gate.py"),
    "Canary": Pointer("canary release", "apps/adapters/canary.py"),
    "Shadow test": Pointer("shadow deployment", "apps/adapters/shadows.py"),
    "Adapter scale check": Pointer("strength sweep over LoRA alpha", "apps/gate/strength_sweep.py"),
    "Under suspicion": Pointer("quarantine", "tentalis/core/learning/quarantine_checks.py"),
    "Deployment": Pointer("deployment", "apps/adapters/services.py"),
    "Session": Pointer("conversation, thread, trace", "apps/conversations/segmentation.py"),
    "Call (exchange)": Pointer("LLM call, request and response", "apps/inference/models.py"),
    "Model server": Pointer("inference server, provider", "apps/inference/providers.py"),
    "Gateway": Pointer("LLM gateway, proxy", "apps/gateway/server.py"),
    "Training machine": Pointer("GPU worker, trainer", "gpu_workers/runner.py"),
    "Job": Pointer("Celery task, background job", "apps/outbox/registry.py"),
    "Outbox": Pointer("transactional outbox", "apps/outbox/relay.py"),
    "Lease": Pointer("lease, visibility timeout", "apps/outbox/services.py"),
    "Failed work (dead letter)": Pointer("dead-letter queue", "apps/outbox/selectors.py"),
    "Audit": Pointer("audit log, hash chain", "apps/audit/chain.py"),
    "Webhook": Pointer("webhook", "apps/webhooks/sending.py"),
    "Scope": Pointer("token scope, permission", "apps/accounts/rights.py"),
    "Manifest": Pointer("manifest, adapter card", "tentalis/core/contracts.py"),
}

IN_CODE: Mapping[str, Pointer] = {
    "Forget, forgetting": Pointer("erase a person (GDPR)", "apps/erasure/erase.py"),
    "Rebuild": Pointer("unlearning by exact retraining", "apps/training/rebuilding.py"),
    "Barred": Pointer("blocked for ever", "apps/adapters/blocking.py"),
    "Preflight G1 to G12": Pointer("sanity checks before and after a run", "tentalis/core/learning/preflight_rules.py"),
    "Publication checks": Pointer("held-out check of the trainer", "gpu_workers/backends/publication_checks.py"),
    "Contamination": Pointer("train/test overlap, leakage", "apps/training/contamination.py"),
    "Training example": Pointer("sample with advantages", "gpu_workers/backends/training_example.py"),
    "Training loop": Pointer("trainer", "gpu_workers/backends/standalone.py"),
    "Chat template": Pointer("render messages to tokens", "gpu_workers/engine/text.py"),
    "Loaded model": Pointer("served model, LoRA slot", "gpu_workers/engine/models.py"),
    "Link, delta": Pointer("prefix sharing of conversations", "tentalis/core/conversation_delta.py"),
    "Turn": Pointer("turn of a conversation", "apps/conversations/segmentation.py"),
    "Signal": Pointer("implicit feedback of a next state", "apps/conversations/signal_extraction.py"),
    "Standing, settled": Pointer("final after the undo window", "apps/feedback/finalizing.py"),
    "Segment, link": Pointer("workflow, workflow step", "apps/pipeline/flow.py"),
    "Desk": Pointer("built-in demo environment", "tentalis/core/desk.py"),
}
