const PER_KEY = ['header:x-api-key']

/** Returns the bundle of the pictures. From `version` 42 on, it differs from 41, so that there are changes to show. */
export function picturedBundle(version) {
  const isNew = version > 41
  return {
    bundle_version: version,
    callers: { keys: { from: ['bearer'] } },
    prices: { list: { 'gpt-4.1*': { input: 2, output: 8 }, '*': { input: 0.5, output: 1.5 } } },
    policies: [
      policy('search', '/search', bucket('per-key', PER_KEY, isNew ? 12 : 8, 24)),
      policy('checkout', '/checkout', bucket('per-key', PER_KEY, 20, 40), { ...window('daily-orders', PER_KEY, 50_000) }),
      policy('login', '/login', bucket('per-address', ['ip:address'], 0.5, 10)),
      policy('chat', '/v1/chat', tokens('tenant-tokens', PER_KEY, 60_000), budget('month', [], 40), budget('per-tenant', PER_KEY, 5)),
      policy('embeddings', '/v1/embeddings', tokens('tokens', [], 200_000)),
      { id: 'reports', spec: { mode: 'shadow', selector: { pathPrefix: '/reports' }, rules: [bucket('per-key', PER_KEY, 2, 4)] } },
      ...(isNew ? [policy('webhooks', '/webhooks', bucket('per-key', PER_KEY, 15, 30))] : []),
    ],
  }
}

function policy(id, pathPrefix, ...rules) {
  return { id, spec: { selector: { pathPrefix }, rules } }
}

function bucket(name, limit_keys, tokens_per_second, burst) {
  return { name, limit_keys, algorithm: 'token_bucket', algorithm_config: { tokens_per_second, burst } }
}

function window(name, limit_keys, limit) {
  return { name, limit_keys, algorithm: 'fixed_window', algorithm_config: { limit, period: '1d', timezone: 'UTC' } }
}

function tokens(name, limit_keys, tokens_per_minute) {
  const algorithm_config = { tokens_per_minute, tokens_per_day: tokens_per_minute * 200, max_completion_tokens: 400 }
  return { name, limit_keys, algorithm: 'token_bucket_llm', algorithm_config }
}

function budget(name, limit_keys, amount) {
  return {
    name,
    limit_keys,
    algorithm: 'cost_budget',
    algorithm_config: { budget: amount, period: '1mo', prices: 'list', warn_at_percent: [80] },
  }
}
