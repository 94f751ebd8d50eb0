"""LoRA under OpenRLHF's reinforcement learning: the weights vLLM samples with, and going on from an earlier adapter.

OpenRLHF 0.11.2 sends the names and tensors PEFT has to vLLM, which knows neither (its issue 1349). We send what vLLM
knows: each weight under its own name, the adapter's product already added. It is added to a copy: merging in place and
taking it back out would leave a rounding error in the frozen base after every update.
"""

from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

from .told import Told

WEIGHTS_FILE = "adapter_model.safetensors"
_PEFT_PREFIX = "base_model.model."


def merged_parameters(model: Any) -> Iterator[tuple[str, Any]]:
    """Every weight of a PEFT model under the name and with the value it has for who knows no adapters.

    Yields:
        (name, Parameter), each merged weight a new tensor of the base's dtype.
    """
    import torch
    from peft.tuners.lora import LoraLayer

    adapted: dict[str, Any] = {name: module for name, module in model.named_modules() if isinstance(module, LoraLayer)}
    for name, parameter in model.named_parameters():
        if ".lora_" in name:
            continue
        owner, _, leaf = name.rpartition(".base_layer.")
        value = parameter
        if leaf == "weight" and owner in adapted:
            merged = parameter.data.float()
            for adapter in adapted[owner].active_adapters:
                merged = merged + adapted[owner].get_delta_weight(adapter).float()
            value = torch.nn.Parameter(merged.to(parameter.dtype), requires_grad=True)
        yield name.removeprefix(_PEFT_PREFIX).replace(".base_layer.", "."), value


def is_adapted(model: Any) -> bool:
    from peft import PeftModel

    return isinstance(model, PeftModel)


def send_merged_weights(module: ModuleType) -> None:
    """Let `openrlhf.trainer.ray.ppo_actor` send merged weights."""
    trainer = module.ActorPPOTrainer
    send = trainer.broadcast_to_vllm

    def broadcast_to_vllm(self: Any) -> None:
        model: Any = self.actor.model.module
        if not is_adapted(model):
            send(self)
            return
        sizes = self.strategy.args.ds
        if sizes.zero_stage == 3 or sizes.tensor_parallel_size > 1:
            raise NotImplementedError("the weights of an adapter are sent whole: wanted ZeRO 0 to 2, one GPU a model")
        merged = list(merged_parameters(model))
        model.named_parameters = lambda *_, **__: iter(merged)  # what `send` goes through
        try:
            send(self)
        finally:
            del model.named_parameters

    trainer.broadcast_to_vllm = broadcast_to_vllm


def continue_parent(module: ModuleType, told: Told) -> None:
    """Let the models of `openrlhf.models.actor` start from the parent adapter."""
    if not told.parent:
        return
    import torch
    from peft import PeftModel, set_peft_model_state_dict
    from safetensors.torch import load_file

    actor = module.Actor
    start = actor.__init__

    def begin(self: Any, *args: Any, **kwargs: Any) -> None:
        start(self, *args, **kwargs)
        if isinstance(self.model, PeftModel):
            tensors = load_file(Path(told.parent) / WEIGHTS_FILE)
            wanted = {name for name, _ in self.model.named_parameters() if ".lora_" in name}
            found = {name.replace(".weight", ".default.weight") for name in tensors}
            if wanted != found:
                raise ValueError(
                    f"the parent adapter has other weights than the recipe's: {sorted(wanted ^ found)[:4]}"
                )
            set_peft_model_state_dict(self.model, tensors)
        elif told.parent_is_reference and isinstance(self.model, torch.nn.Module):
            self.model = PeftModel.from_pretrained(self.model, told.parent).merge_and_unload()

    actor.__init__ = begin


def start_from_the_parent(module: ModuleType) -> None:
    """Let `openrlhf.trainer.ray.ppo_actor` send the parent's policy to vLLM before the first rollout.

    OpenRLHF sends weights after an update: until then vLLM would sample from the bare base. The trainer's own class is
    the place to do so: an actor's class is copied whole, inherited methods too, before anybody could change it.
    """
    trainer = module.ActorPPOTrainer
    start = trainer.__init__

    def begin(self: Any, *args: Any, **kwargs: Any) -> None:
        start(self, *args, **kwargs)
        if not self.vllm_engines:
            return
        if self.strategy.args.vllm.enable_sleep:
            from openrlhf.trainer.ray.vllm_engine import batch_vllm_engine_call

            batch_vllm_engine_call(self.vllm_engines, "wake_up", tags=["weights"])
        self.broadcast_to_vllm()

    trainer.__init__ = begin
