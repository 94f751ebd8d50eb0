"""A device shim: OpenRLHF and vLLM's CPU build on a machine without a GPU. For tests only, found through PYTHONPATH.

Only devices are put on: models, losses, data, sampling, checkpoints and command lines are OpenRLHF's and vLLM's own.
"""

# mypy: ignore-errors
import importlib.abc
import importlib.machinery
import importlib.util
import sys
import types

_find_spec = importlib.util.find_spec


def _flash_attention_is_absent(name, package=None):
    return None if name == "flash_attn" else _find_spec(name, package)


class _FlashAttention(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """OpenRLHF imports names of flash_attn that it only calls with packed samples."""

    NAMES = ("flash_attn", "flash_attn.bert_padding", "flash_attn.utils", "flash_attn.utils.distributed")

    def find_spec(self, name, path=None, target=None):
        return importlib.util.spec_from_loader(name, self, is_package=True) if name in self.NAMES else None

    def create_module(self, spec):
        module = types.ModuleType(spec.name)
        module.__path__ = []
        for name in ("index_first_axis", "pad_input", "rearrange", "unpad_input", "all_gather"):
            setattr(module, name, _refuse)
        return module

    def exec_module(self, module):
        pass


def _refuse(*_, **__):
    raise NotImplementedError("flash attention wants a GPU")


class _Loader(importlib.abc.Loader):
    def __init__(self, inner, change):
        self.inner, self.change = inner, change

    def create_module(self, spec):
        return self.inner.create_module(spec)

    def exec_module(self, module):
        self.inner.exec_module(module)
        self.change(module)

    def __getattr__(self, name):
        return getattr(self.inner, name)


class _Changes(importlib.abc.MetaPathFinder):
    def __init__(self, changes):
        self.changes, self.looking = changes, set()

    def find_spec(self, name, path=None, target=None):
        if name not in self.changes or name in self.looking:
            return None
        self.looking.add(name)
        try:
            spec = _find_spec(name)
        finally:
            self.looking.discard(name)
        if spec is not None:
            spec.loader = _Loader(spec.loader, self.changes[name])
        return spec


def _torch(torch):
    """Where CUDA is asked for, there is a CPU."""
    device = torch.device("cpu")
    torch.cuda.current_device = lambda: device
    for name in ("set_device", "synchronize", "empty_cache", "current_stream"):
        setattr(torch.cuda, name, lambda *_, **__: None)
    from torch.distributed import device_mesh

    make = device_mesh.init_device_mesh

    def init_device_mesh(device_type, *args, **kwargs):
        return make("cpu" if device_type == "cuda" else device_type, *args, **kwargs)

    device_mesh.init_device_mesh = torch.distributed.init_device_mesh = init_device_mesh


def _replay_buffer(module):
    torch = module.torch

    class OnCpu:
        def __getattr__(self, name):
            return getattr(torch, name)

        def device(self, *_):
            return torch.device("cpu")

    module.torch = OnCpu()


def _weights_over_tcp(module):
    """The weights travel through a TCP store instead of NCCL."""

    def stateless_init_process_group(host, port, rank, world_size, device):
        from vllm.distributed.utils import StatelessProcessGroup

        group = StatelessProcessGroup.create(host=host, port=port, rank=rank, world_size=world_size)

        class Group:
            def broadcast(self, tensor, src=0, stream=None):
                sent = group.broadcast_obj(tensor if rank == src else None, src=src)
                if rank != src:
                    tensor.copy_(sent)

        return Group()

    module.stateless_init_process_group = stateless_init_process_group


def _reload_whole(module):
    """vLLM's CPU build repacks linear weights as it loads them: collect what is sent, and load it in one go."""

    def update_weight(self, name, dtype, shape, empty_cache=False):
        import torch

        assert dtype == self.model_config.dtype, f"wanted {self.model_config.dtype}, got {dtype}"
        weight = torch.empty(shape, dtype=dtype)
        self._model_update_group.broadcast(weight, src=0)
        self.came = [*getattr(self, "came", []), (name, weight)]
        if empty_cache:
            self.model_runner.reload_weights(weights_iterator=iter(self.came))
            sys.stdout.write(f"shim: {len(self.came)} weights were loaded again\n")
            self.came = []

    module.WorkerWrap.update_weight = update_weight


def _small_heads(module):
    """vLLM's CPU attention knows no heads of 16: give it heads of 32 whose second half is zero, which is the same."""
    import torch

    attention = module.Attention
    start, go = attention.__init__, attention.forward

    def begin(self, num_heads, head_size, *args, **kwargs):
        start(self, num_heads, max(head_size, 32), *args, **kwargs)
        self.narrow = head_size if head_size < 32 else 0

    def forward(self, query, key, value, *args, **kwargs):
        if not self.narrow:
            return go(self, query, key, value, *args, **kwargs)
        wide = [self.widen(each) for each in (query, key, value)]
        out = go(self, *wide, *args, **kwargs)
        return out.view(out.shape[0], -1, 32)[..., : self.narrow].reshape(out.shape[0], -1)

    def widen(self, states):
        heads = states.view(states.shape[0], -1, self.narrow)
        return torch.nn.functional.pad(heads, (0, 32 - self.narrow)).reshape(states.shape[0], -1)

    attention.__init__, attention.forward, attention.widen = begin, forward, widen


importlib.util.find_spec = _flash_attention_is_absent
sys.meta_path.append(_FlashAttention())
sys.meta_path.insert(
    0,
    _Changes(
        {
            "torch": _torch,
            "openrlhf.trainer.ppo_utils.replay_buffer": _replay_buffer,
            "openrlhf.utils.distributed_util": _weights_over_tcp,
            "openrlhf.trainer.ray.vllm_worker_wrap": _reload_whole,
            "vllm.model_executor.layers.attention.attention": _small_heads,
        }
    ),
)
