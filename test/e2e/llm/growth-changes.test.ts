import { beforeEach, expect, test } from 'vitest'
import { ADMIN_ENV } from '../../support/admin/admin-client.ts'
import { Operator } from '../../support/admin/operator.ts'
import { bucketRule, bundle, llmRule, policy } from '../../support/bundles/bundles.ts'
import { CHAT, HELLO, HELLO_TOKENS, proxyEnv } from '../../support/llm/llm-proxy.ts'
import { chatChunk, sse } from '../../support/llm/llm-streams.ts'
import { scriptedLlm } from '../../support/llm/scripted-llm.ts'
import { StreamClient } from '../../support/llm/stream-client.ts'
import { awayFromMidnight } from '../../support/redis/away-from-midnight.ts'
import type { Edge } from '../../support/service/edge.ts'
import { metric } from '../../support/service/metrics.ts'
import { running } from '../../support/service/running.ts'
import { until } from '../../support/until.ts'

const DAY_TOKENS = 300
const RESERVE = { reserve: { first: 100, step: 100 } }
const ASKED = JSON.stringify({ stream: true, messages: HELLO, max_tokens: 20_000 })
/** A token each; 700 are more than twice the budget. */
const WORDS = Array.from({ length: 700 }, (_, i) => chatChunk({ content: `w${String(i).padStart(3, '0')}` }))

/** With a policy beside it, so that the one with the budget can be left out. */
function bundleOf(version: number, config: object | undefined, mode?: 'shadow'): object {
  const other = policy('other', { rules: [bucketRule('r', [], 1000)] })
  if (config === undefined) return bundle(version, other)
  return bundle(version, policy('p', { ...(mode && { mode }), rules: [llmRule('budget', [], config)] }), other)
}

type Change = (edge: Edge, operator: Operator) => Promise<unknown>
const published =
  (config: object | undefined, mode?: 'shadow'): Change =>
  (edge) =>
    edge.publish(bundleOf(2, config, mode))
const overridden =
  (body: object): Change =>
  (_edge, operator) =>
    operator.override(body)

/** What the client sees of 700 words if this happens after 50 of them. */
const CHANGES: readonly (readonly [what: string, change: Change, words: number])[] = [
  ['nothing', async () => {}, DAY_TOKENS],
  ['a bundle without `reserve`, which does not take it from streams that have it', published({ tokens_per_day: DAY_TOKENS }), DAY_TOKENS],
  [
    'a bundle with a larger step, which is for later streams',
    published({ tokens_per_day: DAY_TOKENS, reserve: { first: 5000, step: 5000 } }),
    DAY_TOKENS,
  ],
  ['a bundle with a larger budget', published({ tokens_per_day: 500, ...RESERVE }), 500],
  ['a bundle with a budget below what it has', published({ tokens_per_day: 60, ...RESERVE }), HELLO_TOKENS + 100],
  ['a bundle without the rule', published(undefined), WORDS.length],
  ['a bundle in which its policy is in shadow mode', published({ tokens_per_day: DAY_TOKENS, ...RESERVE }, 'shadow'), WORDS.length],
  ['an override that lifts the rule', overridden({ policy: 'p', rule: 'budget', all: true, unlimited: true }), WORDS.length],
  [
    'an override that blocks the rule for later requests',
    overridden({ policy: 'p', rule: 'budget', all: true, block: true }),
    WORDS.length,
  ],
  ['an override that doubles it', overridden({ policy: 'p', rule: 'budget', all: true, multiply: 2 }), 2 * DAY_TOKENS],
  ['shadow_all', overridden({ shadow_all: true }), WORDS.length],
]

beforeEach(awayFromMidnight)

test.each(CHANGES)('a stream that grows goes by the limit that is in force when it asks: %s', async (_, change, tokens) => {
  const backend = await scriptedLlm()
  const env = { EDGE_SHUTDOWN_MS: '0', ...proxyEnv(backend), ...ADMIN_ENV }
  const edge = await running({ bundle: bundleOf(1, { tokens_per_day: DAY_TOKENS, ...RESERVE }), env })
  const client = new StreamClient(edge.port, CHAT, ASKED)
  const call = await backend.next()
  call.begin()
  await call.write(WORDS.slice(0, 50).join(''))
  await client.untilText('w049')
  await change(edge, new Operator(edge.adminPort))
  await call.write(WORDS.slice(50).join(''))
  call.end(sse('[DONE]'))
  await client.untilClosed()
  const seen = client.text.match(/"w\d{3}"/g)!.length
  if (tokens === WORDS.length) {
    expect(seen).toBe(WORDS.length)
    expect(client.text).not.toContain('"length"')
  } else {
    expect(client.data.at(-2)).toMatchObject({ choices: [{ finish_reason: 'length' }] })
    // Less than a sixteenth of a step is left, and the budget pays for the prompt, too.
    expect(seen).toBeLessThanOrEqual(tokens)
    expect(seen).toBeGreaterThan(tokens - HELLO_TOKENS - 100 / 16 - 1)
  }
  await until(async () => (await metric(edge.adminPort, 'edge_llm_open_streams')) === 0)
})
