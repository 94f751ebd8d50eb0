"""Log-probs read off in blocks are those of all logits at once, their gradients too, in little memory."""

import subprocess
import sys

import pytest
import torch
from torch import Tensor

from gpu_workers.learning import logprobs
from gpu_workers.learning.logprobs import rank_tokens, token_logprobs

pytestmark = pytest.mark.torch

TOKENS, WIDTH, WORDS, BESIDE = 23, 6, 31, 4


def draw(dtype: torch.dtype = torch.float64) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """hidden, head, token ids, support ids."""
    torch.manual_seed(3)
    hidden = torch.randn(TOKENS, WIDTH, dtype=dtype, requires_grad=True)
    head = torch.randn(WORDS, WIDTH, dtype=dtype)
    return hidden, head, torch.randint(WORDS, (TOKENS,)), torch.randint(WORDS, (TOKENS, BESIDE))


def read_whole(hidden: Tensor, head: Tensor, token_ids: Tensor, support_ids: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """The same by PyTorch's own operations and gradients."""
    logprobs = (hidden @ head.T).log_softmax(-1)
    entropies = torch.special.entr(logprobs.exp()).sum(-1)
    return logprobs.gather(-1, token_ids[:, None])[:, 0], entropies, logprobs.gather(-1, support_ids)


@pytest.mark.parametrize(("rows", "few"), [(1, 1), (5, 2), (TOKENS, 4), (100, 100)])
@pytest.mark.parametrize("of", ["taken", "entropy", "support", "all"])
def test_values_and_gradients_are_those_of_the_whole(
    rows: int, few: int, of: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(logprobs, "FEW_LOGITS", few * WORDS)
    hidden, head, token_ids, support_ids = draw()
    weights = [torch.rand(TOKENS), torch.rand(TOKENS), torch.rand(TOKENS, BESIDE)]
    for place, name in enumerate(("taken", "entropy", "support")):
        if of not in (name, "all"):
            weights[place].zero_()
    found = token_logprobs(
        hidden, head, token_ids, support_ids=support_ids, entropy_has_gradient=True, most_logits=rows * WORDS
    )
    wanted = read_whole(hidden, head, token_ids, support_ids)
    gradients = []
    for mine in ((found.logprobs, found.entropies, found.support), wanted):
        for one, theirs in zip(mine, wanted, strict=True):
            assert one is not None
            torch.testing.assert_close(one, theirs, atol=1e-12, rtol=0)
        total = sum(((weight * one).sum() for weight, one in zip(weights, mine, strict=True) if one is not None))
        assert isinstance(total, Tensor)
        gradients.append(torch.autograd.grad(total, hidden)[0])
    assert gradients[0].abs().max() > 0.01
    torch.testing.assert_close(*gradients, atol=1e-12, rtol=0)


def test_entropies_that_are_only_looked_at_have_no_gradient() -> None:
    hidden, head, token_ids, _ = draw()
    found = token_logprobs(hidden, head, token_ids)
    assert found.logprobs.requires_grad
    assert not found.entropies.requires_grad
    assert found.support is None


def test_half_precision_is_read_in_single() -> None:
    hidden, head, token_ids, _ = draw(torch.bfloat16)
    found = token_logprobs(hidden, head, token_ids)
    assert (found.logprobs.dtype, found.entropies.dtype) == (torch.float32, torch.float32)
    found.logprobs.sum().backward()  # type: ignore[no-untyped-call]
    assert hidden.grad is not None
    assert hidden.grad.dtype == torch.bfloat16
    logits = (hidden.float() @ head.float().T).detach()
    torch.testing.assert_close(
        found.logprobs.exp().sum(), logits.softmax(-1)[range(TOKENS), token_ids].sum(), atol=0.05, rtol=0
    )


def test_worked_by_hand() -> None:
    logits = torch.log(torch.tensor([[0.5, 0.5], [1.0 - 1e-9, 1e-9]]))
    found = token_logprobs(logits, torch.eye(2), torch.tensor([1, 0]))
    assert found.logprobs.tolist() == pytest.approx([-0.6931, 0.0], abs=1e-4)
    assert found.entropies.tolist() == pytest.approx([0.6931, 0.0], abs=1e-4)


def test_what_does_not_fit_is_refused() -> None:
    with pytest.raises(ValueError, match=r"wanted hidden \(N, D\), head \(V, D\) and token_ids \(N,\), found \(2, 3\)"):
        token_logprobs(torch.zeros(2, 3), torch.zeros(4, 3), torch.zeros(3, dtype=torch.int64))
    with pytest.raises(ValueError, match="the head must be frozen"):
        token_logprobs(torch.zeros(2, 3), torch.zeros(4, 3, requires_grad=True), torch.zeros(2, dtype=torch.int64))


# two forks of one process, for importing torch takes longer than both; what `getrusage` calls the most that a process
# held counts what its parent held when it was forked, and so does /proc until it is told to begin anew
MEMORY = """
import os, re, sys, torch
from gpu_workers.learning.logprobs import token_logprobs
def peak():
    return int(re.search(r"VmHWM:\\s+(\\d+)", open("/proc/self/status").read())[1])
def measure(most_logits):
    hidden, head = torch.randn(4096, 16, requires_grad=True), torch.randn(40_000, 16)
    open("/proc/self/clear_refs", "w").write("5")
    before = peak()
    found = token_logprobs(hidden, head, torch.randint(40_000, (4096,)), most_logits=most_logits)
    found.logprobs.sum().backward()
    print((peak() - before) / 1024, flush=True)
torch.set_num_threads(1)
for most_logits in sys.argv[1:]:
    if (child := os.fork()) == 0:
        measure(int(most_logits))
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
"""


def test_logits_of_a_large_vocabulary_are_never_there_at_once() -> None:
    """All of them are 625 MiB, and their log-probs and chances are never there beside them."""
    argv = [sys.executable, "-c", MEMORY, str(2**22), str(2**30)]
    done = subprocess.run(argv, capture_output=True, text=True, check=True)
    blocks, whole = map(float, done.stdout.split())
    assert blocks < 200 < 625 < whole < 800


@pytest.mark.parametrize("rows", [1, 5, 100])
def test_the_likeliest_tokens_and_the_log_probs_of_others_do_not_depend_on_blocks(rows: int) -> None:
    hidden, head, _, support_ids = draw()
    logprobs, top = rank_tokens(hidden.detach(), head, support_ids, 3, most_logits=rows * WORDS)
    whole = (hidden.detach() @ head.T).log_softmax(-1)
    torch.testing.assert_close(logprobs, whole.gather(-1, support_ids), atol=1e-12, rtol=0)
    assert torch.equal(top, whole.argsort(-1, descending=True)[:, :3])
    assert rank_tokens(hidden.detach(), head, support_ids, 99)[1].shape == (TOKENS, WORDS)
