"""Anthropic's Messages API: spoken to callers, and to servers that speak nothing else."""

from apps.gateway.dialects.messages.dialect import MessagesDialect
from apps.gateway.dialects.messages.upstream import MessagesUpstream

__all__ = ["MessagesDialect", "MessagesUpstream"]
