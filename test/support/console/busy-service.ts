import { ADMIN_ENV, askAdmin } from '../admin/admin-client.ts'
import { bucketRule, budgetRule, bundle, llmRule, matching, policy, windowRule } from '../bundles/bundles.ts'
import { CHAT, fakeLlm, HELLO, proxyEnv } from '../llm/llm-proxy.ts'
import type { Edge } from '../service/edge.ts'
import { ask } from '../service/http.ts'
import { running, thisTest } from '../service/running.ts'

const KEYS = ['header:x-api-key']
const PRICES = { list: { '*': { input: 3, output: 15 } } }
const KEYS_ISSUED = [
  [{ team: 'search', user: 'ada' }, '90d'],
  [{ team: 'search', project: 'a-word-that-is-too-long-for-any-column-'.repeat(3) }, '2d'],
] as const
const LLM_FIELDS = [
  ['x-api-key', 'acme'],
  ['x-edge-prompt-tokens', '1200'],
  ['x-edge-max-tokens', '400'],
] as const

/** A service with policies of several kinds, callers who are rejected, and overrides: every view has something to show. */
export async function busyService(owner = thisTest): Promise<Edge> {
  const policies = [
    policy('search', { selector: { pathPrefix: '/search' }, rules: [bucketRule('per-key', KEYS, 5, 0.01)] }),
    policy('exports', {
      mode: 'shadow',
      selector: { pathPrefix: '/exports' },
      rules: [windowRule('daily', KEYS, { limit: 2, period: '1d' })],
    }),
    policy('chat', {
      selector: { pathPrefix: '/chat' },
      rules: [
        llmRule('tokens', KEYS, { tokens_per_minute: 100_000, tokens_per_day: 2_000_000 }),
        budgetRule('money', KEYS, { budget: 20, prices: 'list' }),
        budgetRule('money of all', [], { budget: 500, prices: 'list' }),
        matching({ 'header:x-api-key': 'trial-*' }, bucketRule('trial', KEYS, 1, 0.01)),
      ],
    }),
  ]
  const edge = await running(
    { bundle: { ...bundle(3, ...policies), prices: PRICES }, env: { ...ADMIN_ENV, EDGE_GATEWAY_HINTS: 'on' } },
    owner,
  )
  for (const key of ['acme', 'initech']) await edge.decideTimes(8, { uri: '/search', fields: [['x-api-key', key]] })
  await edge.decideTimes(4, { uri: '/exports', fields: [['x-api-key', 'acme']] })
  await edge.decideTimes(4, { uri: '/chat', fields: LLM_FIELDS })
  const rule = { policy: 'search', rule: 'per-key', reason: 'ticket 4711' }
  await askAdmin(edge.adminPort, 'POST', 'overrides', {
    actor: 'ada',
    body: { ...rule, multiply: 3, until: '2h', values: { [KEYS[0]!]: 'acme' } },
  })
  await askAdmin(edge.adminPort, 'POST', 'overrides', {
    actor: 'ada',
    body: { ...rule, block: true, until: '1d', values: { [KEYS[0]!]: 'umbrella' } },
  })
  for (const [labels, expires_at] of KEYS_ISSUED)
    await askAdmin(edge.adminPort, 'POST', 'keys', { actor: 'ada', body: { labels, expires_at, reason: 'ticket 4711' } })
  return edge
}

/** A reverse proxy before an LLM: tokens and money are counted, and a block can cut streams. */
export async function busyProxy(owner = thisTest): Promise<Edge> {
  const rules = [llmRule('tokens', KEYS, { tokens_per_minute: 100_000 }), budgetRule('money of all', [], { budget: 500, prices: 'list' })]
  const env = { ...ADMIN_ENV, ...proxyEnv(await fakeLlm({}, owner)) }
  const edge = await running({ bundle: { ...bundle(3, policy('chat', { rules })), prices: PRICES }, env }, owner)
  const body = JSON.stringify({ model: 'big', messages: HELLO, max_tokens: 10 })
  for (let i = 0; i < 3; i++) await ask(edge.port, 'POST', CHAT, [['x-api-key', 'acme']], body)
  return edge
}
