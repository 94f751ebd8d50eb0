"""Attention of flat tokens by segments: each segment's queries see that segment's keys, and no mask says so.

Nothing as large as queries times keys is ever there, so that the length of an answer costs no memory of its own. On a
GPU, in half precision, flash attention reads segments of any length at once; a CPU reads one at a time.
"""

from collections.abc import Iterator
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from gpu_workers.learning.fusing import fused

BLOCK = 1024
"""Queries that a CPU reads at a time where it needs a mask."""


class Segments(NamedTuple):
    """Segments of flat queries and keys, end to end.

    Args:
        query_sizes, key_sizes: (S,) tokens of each.
        query_ends, key_ends: (S + 1,) int32, 0 and where each ends, on the device of the tokens.
        is_causal: the last query of a segment sees all of its keys, each one before it one less; False: all see all.
        window: keys a query sees at most, its own among them; None: all before it.
    """

    query_sizes: tuple[int, ...]
    key_sizes: tuple[int, ...]
    query_ends: Tensor
    key_ends: Tensor
    is_causal: bool
    window: int | None = None


def lay_segments(
    query_sizes: tuple[int, ...],
    key_sizes: tuple[int, ...],
    *,
    is_causal: bool,
    device: torch.device,
    window: int | None = None,
) -> Segments:
    """Segments of these sizes."""
    ends = [torch.tensor([0, *sizes]).cumsum(0).to(device, torch.int32) for sizes in (query_sizes, key_sizes)]
    return Segments(query_sizes, key_sizes, ends[0], ends[1], is_causal, window)


def attend_segments(
    queries: Tensor, keys: Tensor, values: Tensor, own: Segments, shared: Segments | None = None, *, scale: float
) -> Tensor:
    """Attention over each segment's keys, and where `shared` is given over some more.

    Args:
        queries: (N, H, hd); keys, values: (M, KV, hd).
        shared: segments whose keys are the first tokens, and whose queries are all those behind: what the same keys
            mean to several segments is computed once. Needs N = M.
        scale: of a query's product with a key.
    Returns:
        (N, H, hd).
    Source:
        Attention over parts of the keys is joined by their log-sum-exp as in flash attention, arXiv:2307.08691; the
        gradient of each part is the one that the joined output and log-sum-exp give.
    """
    found: Tensor = _Attention.apply(queries, keys, values, own, shared, scale)  # type: ignore[no-untyped-call]
    return found


class _Attention(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, queries: Tensor, keys: Tensor, values: Tensor, own: Segments, shared: Segments | None, scale: float
    ) -> Tensor:
        out, sums = _read(queries, keys, values, own, scale)
        if shared is not None:
            behind = sum(shared.key_sizes)
            more, more_sums = _read(queries[behind:], keys[:behind], values[:behind], shared, scale)
            _join_(out[behind:], more, sums[:, behind:], more_sums)
        ctx.save_for_backward(queries, keys, values, out, sums)
        ctx.own, ctx.shared, ctx.scale = own, shared, scale
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, by_out: Tensor) -> tuple[Tensor | None, ...]:
        queries, keys, values, out, sums = ctx.saved_tensors
        by_out = by_out.contiguous()
        by_queries, by_keys, by_values = _read_back(by_out, queries, keys, values, out, sums, ctx.own, ctx.scale)
        if ctx.shared is not None:
            behind = sum(ctx.shared.key_sizes)
            more = _read_back(
                by_out[behind:],
                queries[behind:],
                keys[:behind],
                values[:behind],
                out[behind:],
                sums[:, behind:].contiguous(),
                ctx.shared,
                ctx.scale,
            )
            by_queries[behind:] += more[0]
            by_keys[:behind] += more[1]
            by_values[:behind] += more[2]
        return by_queries, by_keys, by_values, None, None, None


@fused
def _join_(one: Tensor, other: Tensor, one_sums: Tensor, other_sums: Tensor) -> None:
    """Make attention over some keys (N, H, hd) and its log-sum-exps (H, N) those over others too, where they lie."""
    joined = torch.logaddexp(one_sums, other_sums)
    share, rest = ((sums - joined).exp().T[..., None] for sums in (one_sums, other_sums))
    one.copy_(one * share + other * rest)
    one_sums.copy_(joined)


def _read(queries: Tensor, keys: Tensor, values: Tensor, segments: Segments, scale: float) -> tuple[Tensor, Tensor]:
    """Attention (N, H, hd) and its log-sum-exps (H, N) float32."""
    if queries.is_cuda:
        out, sums, *_ = torch.ops.aten._flash_attention_forward(
            queries,
            keys,
            values,
            segments.query_ends,
            segments.key_ends,
            max(segments.query_sizes),
            max(segments.key_sizes),
            0.0,
            segments.is_causal,
            False,
            scale=scale,
            window_size_left=-1 if segments.window is None else segments.window - 1,
            window_size_right=-1,
        )
        return out, sums
    out = torch.empty_like(queries, memory_format=torch.contiguous_format)
    sums = queries.new_empty(
        queries.shape[1], queries.shape[0], dtype=torch.promote_types(queries.dtype, torch.float32)
    )
    groups = queries.shape[1] // keys.shape[1]
    for asks, seen, bias, is_causal in _parts(segments, queries):
        part, part_sums = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu(
            _stack(queries[asks]),
            _stack(keys[seen], groups),
            _stack(values[seen], groups),
            0.0,
            is_causal,
            attn_mask=bias,
            scale=scale,
        )
        out[asks], sums[:, asks] = part[0].transpose(0, 1), part_sums[0]
    return out, sums


def _read_back(
    by_out: Tensor,
    queries: Tensor,
    keys: Tensor,
    values: Tensor,
    out: Tensor,
    sums: Tensor,
    segments: Segments,
    scale: float,
) -> tuple[Tensor, Tensor, Tensor]:
    """Gradients by queries, keys and values, of one part of the keys."""
    if queries.is_cuda:
        found: tuple[Tensor, Tensor, Tensor] = torch.ops.aten._flash_attention_backward(
            by_out,
            queries,
            keys,
            values,
            out,
            sums,
            segments.query_ends,
            segments.key_ends,
            max(segments.query_sizes),
            max(segments.key_sizes),
            0.0,
            segments.is_causal,
            queries.new_zeros(2, dtype=torch.uint64),  # where dropout would be drawn from
            queries.new_empty(0),
            scale=scale,
            window_size_left=-1 if segments.window is None else segments.window - 1,
            window_size_right=-1,
        )
        return found
    by_queries = torch.zeros_like(queries, memory_format=torch.contiguous_format)
    by_keys, by_values = torch.zeros_like(keys), torch.zeros_like(values)
    groups = queries.shape[1] // keys.shape[1]
    for asks, seen, bias, is_causal in _parts(segments, queries):
        by_query, by_key, by_value = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu_backward(
            _stack(by_out[asks]),
            _stack(queries[asks]),
            _stack(keys[seen], groups),
            _stack(values[seen], groups),
            _stack(out[asks]),
            sums[None, :, asks],
            0.0,
            is_causal,
            attn_mask=bias,
            scale=scale,
        )
        by_queries[asks] += by_query[0].transpose(0, 1)
        for whole, part in ((by_keys, by_key), (by_values, by_value)):
            whole[seen] += part[0].transpose(0, 1).unflatten(1, (-1, groups)).sum(2)
    return by_queries, by_keys, by_values


def _stack(flat: Tensor, groups: int = 1) -> Tensor:
    """(L, KV, hd) -> (1, KV * groups, L, hd)."""
    return flat.repeat_interleave(groups, 1).transpose(0, 1)[None] if groups > 1 else flat.transpose(0, 1)[None]


def _parts(segments: Segments, queries: Tensor) -> Iterator[tuple[slice, slice, Tensor | None, bool]]:
    """Queries and keys that a CPU reads together, with what is added to their products, and whether it is causal."""
    ends = zip(segments.query_ends.tolist(), segments.key_ends.tolist(), strict=True)
    asked_from, seen_from = next(ends)
    for asked_to, seen_to in ends:
        asked, seen = asked_to - asked_from, seen_to - seen_from
        is_cut = segments.window is not None and segments.window < seen
        if not segments.is_causal or (asked == seen and not is_cut):
            yield slice(asked_from, asked_to), slice(seen_from, seen_to), None, segments.is_causal
        else:
            for start in range(0, asked, BLOCK):
                end, ahead = min(asked, start + BLOCK), seen - asked
                first = 0 if segments.window is None else max(0, start + ahead - segments.window + 1)
                last = torch.arange(start + ahead, end + ahead, device=queries.device)[:, None]
                places = torch.arange(first, end + ahead, device=queries.device)
                sees = places <= last
                if segments.window is not None:
                    sees &= places > last - segments.window
                bias = torch.zeros(sees.shape, dtype=queries.dtype, device=queries.device)
                bias.masked_fill_(~sees, float("-inf"))
                yield (
                    slice(asked_from + start, asked_from + end),
                    slice(seen_from + first, seen_from + end + ahead),
                    bias,
                    False,
                )
        asked_from, seen_from = asked_to, seen_to
