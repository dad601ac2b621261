"""Callers of LiteLLM without a database: the key itself says its limits. A key is `sk-KIND-LIMIT-ESTIMATE-NAME`, and an estimate of 0 is none."""

from fastapi import Request
from litellm.proxy._types import UserAPIKeyAuth


async def user_api_key_auth(request: Request, api_key: str) -> UserAPIKeyAuth:
    _, kind, limit, estimate, _ = api_key.split("-")
    if kind == "money":
        return UserAPIKeyAuth(api_key=api_key, max_budget=float(limit))
    metadata = {"default_estimated_output_tokens": int(estimate)} if int(estimate) > 0 else {}
    return UserAPIKeyAuth(api_key=api_key, tpm_limit=int(limit), metadata=metadata)
