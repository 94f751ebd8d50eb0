"""What every process of a run calls first (Ray's `worker_process_setup_hook`): what is to follow which import."""

from .post_import import when_imported
from .told import read_told


def install() -> None:
    """Arrange for our changes. Which of them come to pass depends on what the process imports of OpenRLHF."""
    from . import distillation, exact_tokens, head, lora

    told = read_told()
    when_imported("openrlhf.models.actor", lambda module: lora.continue_parent(module, told))
    when_imported("openrlhf.datasets.sft_dataset", exact_tokens.read_demonstrations)
    when_imported("openrlhf.datasets.reward_dataset", exact_tokens.read_pairs)
    when_imported("openrlhf.trainer.dpo_trainer", exact_tokens.count_some)
    if told.head_alone:
        when_imported("openrlhf.models.model", head.train_head_alone)
    when_imported("openrlhf.trainer.ray.ppo_actor", lora.send_merged_weights)
    if told.parent:
        when_imported("openrlhf.trainer.ray.ppo_actor", lora.start_from_the_parent)
    when_imported("openrlhf.trainer.ppo_trainer", lambda module: distillation.weigh_advantages(module, told))
