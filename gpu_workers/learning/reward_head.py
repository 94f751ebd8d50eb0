"""The step scorer's head: two layers on a frozen model's hidden states at the ends of steps. Plain torch."""

from collections.abc import Callable, Mapping, Sequence
from typing import Final, NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import binary_cross_entropy_with_logits, linear, relu

Span = tuple[int, int]
TENSORS: Final = ("mean", "scale", "hidden.weight", "hidden.bias", "out.weight", "out.bias")
VIEWS: Final = 3
"""How many hidden-state vectors a step is seen through; see `read_features`."""
_SCALE_FLOOR = 1e-3


class Head(NamedTuple):
    """A head's tensors; F = VIEWS * D features, H hidden units.

    Args:
        mean, scale: (F,) what features are centred and divided by.
        hidden_weight: (H, F); hidden_bias: (H,).
        out_weight: (H,); out_bias: ().
    """

    mean: Tensor
    scale: Tensor
    hidden_weight: Tensor
    hidden_bias: Tensor
    out_weight: Tensor
    out_bias: Tensor

    def logits(self, features: Tensor) -> Tensor:
        """(N, F) -> (N,), before any calibration."""
        inner = relu(linear((features - self.mean) / self.scale, self.hidden_weight, self.hidden_bias))  # N H
        return inner @ self.out_weight + self.out_bias

    def to_tensors(self) -> dict[str, Tensor]:
        """By name, as they are stored."""
        return {name: value.contiguous() for name, value in zip(TENSORS, self, strict=True)}

    @classmethod
    def from_tensors(cls, tensors: Mapping[str, Tensor]) -> "Head":
        """Raises ValueError unless these are exactly a head's tensors, of shapes that fit and finite."""
        if set(tensors) != set(TENSORS):
            raise ValueError(f"a head has the tensors {', '.join(TENSORS)}; found {', '.join(sorted(tensors))}")
        head = cls(*(tensors[name] for name in TENSORS))
        size, width = head.hidden_weight.shape if head.hidden_weight.ndim == 2 else (0, 0)
        wanted = ((width,), (width,), (size, width), (size,), (size,), ())
        for name, value, shape in zip(TENSORS, head, wanted, strict=True):
            if tuple(value.shape) != shape:
                raise ValueError(f"{name} must have shape {shape}, found {tuple(value.shape)}")
            if not bool(torch.isfinite(value).all()):
                raise ValueError(f"{name} is not finite")
        return head


def read_features(states: Tensor, prompt_size: int, spans: Sequence[Span]) -> Tensor:
    """What the head sees of each step: the state at its last token, the mean state of the answer up to its end, and
    the mean state of the step itself.

    Args:
        states: (T, D) last hidden states of prompt and answer.
        spans: token spans [start, end) in the answer, none empty.
    Returns:
        (S, 3 D)
    Raises:
        ValueError: a span is empty or reaches out of the answer.
    Source:
        Math-Shepherd, arXiv:2312.08935, scores at a step's last token; the two means are ours: a small model keeps the
        evidence for a step (which option was taken) spread over its tokens.
    """
    length = states.shape[0] - prompt_size
    rows = []
    for start, end in spans:
        if not 0 <= start < end <= length:
            raise ValueError(f"step span [{start}, {end}) is empty or outside 0..{length}")
        answer = states[prompt_size : prompt_size + end]
        rows.append(torch.cat([answer[-1], answer.mean(0), answer[start:].mean(0)]))
    return torch.stack(rows) if rows else states.new_zeros(0, VIEWS * states.shape[1])


def fit_head(
    features: Tensor,
    labels: Tensor,
    weights: Tensor,
    *,
    hidden: int,
    steps: int,
    batch: int,
    learning_rate: float,
    weight_decay: float,
    seed: int,
    report: Callable[[int, float], None] = lambda _step, _loss: None,
    report_every: int = 50,
) -> Head:
    """Fit a head by AdamW on weighted binary cross-entropy; the same arguments give the same head with one thread.

    Args:
        features: (N, F); labels: (N,) in [0, 1]; weights: (N,) >= 0, how far each label is trusted.
        report: told the number of updates made and the mean loss since it was told last.
    Returns:
        A head without gradients, on the features' device.
    Raises:
        ValueError: nothing to learn from: no features, no weight, or labels all alike.
    """
    if len(features) == 0 or not bool((weights > 0).any()):
        raise ValueError(f"wanted labelled steps to learn from, found {len(features)}, none of them trusted")
    trusted = labels[weights > 0]
    if bool((trusted >= 0.5).all()) or bool((trusted < 0.5).all()):
        kind = "good" if bool((trusted >= 0.5).all()) else "bad"
        raise ValueError(f"wanted good and bad steps, found {len(trusted)} {kind} ones only")
    generator = torch.Generator().manual_seed(seed)
    width, device = features.shape[1], features.device

    def draw(shape: tuple[int, ...], fan_in: int) -> Tensor:
        bound = fan_in**-0.5
        tensor: Tensor = ((torch.rand(shape, generator=generator) * 2 - 1) * bound).to(device).requires_grad_()
        return tensor

    parameters = [
        draw((hidden, width), width),
        draw((hidden,), width),
        draw((hidden,), hidden),
        draw((), hidden),
    ]
    mean, scale = features.mean(0), features.std(0, correction=0) + _SCALE_FLOOR
    head = Head(mean, scale, *parameters)
    optimizer = torch.optim.AdamW(parameters, lr=learning_rate, weight_decay=weight_decay)
    since: list[float] = []
    for step in range(1, steps + 1):
        rows = torch.randint(len(features), (min(batch, len(features)),), generator=generator).to(device)
        loss = binary_cross_entropy_with_logits(head.logits(features[rows]), labels[rows], weight=weights[rows])
        optimizer.zero_grad()
        torch.autograd.backward(loss)
        optimizer.step()
        since.append(float(loss.detach()))
        if step % report_every == 0 or step == steps:
            report(step, sum(since) / len(since))
            since.clear()
    return Head(*(value.detach() for value in head))
