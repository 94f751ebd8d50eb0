"""OpenAI's Responses API."""

from apps.gateway.dialects.responses.dialect import ResponsesDialect

__all__ = ["ResponsesDialect"]
