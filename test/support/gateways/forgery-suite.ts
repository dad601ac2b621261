import { expect, test } from 'vitest'
import { bundle, llmRule, policy, rateRule } from '../bundles/bundles.ts'
import { ask } from '../service/http.ts'
import { ManualClock } from '../service/manual-clock.ts'
import type { Gateway } from './gateway.ts'
import { ALICE, behind, startEdge } from './gateway-setup.ts'
import { recordingEdge } from './recording-edge.ts'

/** Fields that edge reads and that only a gateway may send, and what a client would write to gain by them. */
const CLEARED: Readonly<Record<string, string>> = {
  'X-ASN-Type': 'residential',
  'X-Tor-Exit': 'false',
  'X-Edge-Settle': '1',
  'X-Edge-Reservation': 'AAAA',
  'X-Edge-Prompt-Tokens': '1',
  'X-Edge-Max-Tokens': '1',
  'X-Edge-Model': 'cheap',
  'X-Request-Cost': '0.01',
}
/** Fields in which gateways say what they ask about. */
const REPLACED: Readonly<Record<string, string>> = {
  'X-Original-Method': 'DELETE',
  'X-Original-URI': '/free',
  'X-Original-URL': 'http://free.example/free',
  'X-Original-Host': 'free.example',
  'X-Forwarded-Method': 'DELETE',
  'X-Forwarded-Uri': '/free',
  'X-Forwarded-Host': 'free.example',
  'X-Forwarded-Proto': 'gopher',
  'X-Forwarded-For': '203.0.113.9',
}
const FORGED = [...Object.entries(CLEARED), ...Object.entries(REPLACED)]

/** A client that says what only a gateway may say. */
export function forgerySuite(gateway: Gateway): void {
  test('tells edge nothing that a client said in the place of the gateway', async () => {
    const asked = await recordingEdge(gateway)
    const { port, backend } = await behind(gateway, asked)
    const spellings = FORGED.flatMap(([name, value]) =>
      [name, name.toLowerCase(), name.toUpperCase()].map((spelled) => [spelled, value] as const),
    )
    for (const field of spellings) {
      expect((await ask(port, 'GET', '/original?a=1', [field, ...ALICE])).status).toBe(200)
      const question = asked.seen.at(-1)!
      expect([field, gateway.asked(question)]).toEqual([
        field,
        { method: 'GET', uri: '/original?a=1', host: expect.stringMatching(/^127\.0\.0\.1(:\d+)?$/) },
      ])
      expect([field, Object.keys(CLEARED).filter((name) => name.toLowerCase() in question.headers)]).toEqual([field, []])
      expect([field, addresses(question.headers['x-forwarded-for'])]).toEqual([field, [gateway.loopbackAddress ?? '127.0.0.1']])
      expect([field, addresses(backend.seen.at(-1)!.headers['x-forwarded-for'])]).toEqual([field, [gateway.loopbackAddress ?? '127.0.0.1']])
    }
    expect([asked.seen.length, backend.seen.length]).toEqual([spellings.length, spellings.length])
  })

  test('nor where a client tells it twice, or calls it a field of the connection', async () => {
    const asked = await recordingEdge(gateway)
    const { port } = await behind(gateway, asked)
    let refused = 0
    for (const [name, value] of FORGED) {
      const { status } = await ask(port, 'GET', '/original', [[name, value], [name, value], ['Connection', name], ...ALICE])
      // What the gateway refuses, it asks nobody about.
      if (status === 400) {
        refused++
        continue
      }
      const question = asked.seen.at(-1)!
      expect([name, gateway.asked(question)]).toMatchObject([name, { method: 'GET', uri: '/original' }])
      expect([name, Object.keys(CLEARED).filter((cleared) => cleared.toLowerCase() in question.headers)]).toEqual([name, []])
      expect([name, addresses(question.headers['x-forwarded-for'])]).toEqual([name, [gateway.loopbackAddress ?? '127.0.0.1']])
    }
    expect(asked.seen).toHaveLength(FORGED.length - refused)
  })

  test('every request costs what it would have cost without, is counted for its own address, and gets no reservation', async () => {
    const rules = [
      rateRule('units', ['ip:address'], { rate: '1000/minute', cost: { header: 'x-request-cost' } }),
      llmRule('budget', ['ip:address'], { tokens_per_day: 1000, max_completion_tokens: 10 }),
    ]
    const edge = await startEdge({ bundle: bundle(1, policy('p', { rules })), clock: new ManualClock(), env: { EDGE_GATEWAY_HINTS: 'on' } })
    const { port } = await behind(gateway, edge)
    for (const field of FORGED) {
      const { status, headers } = await ask(port, 'GET', '/', [field])
      expect([field, status, headers['x-edge-reservation']]).toEqual([field, 200, undefined])
    }
    const { headers } = await edge.decide({ fields: [['X-Forwarded-For', gateway.loopbackAddress ?? '127.0.0.1']] })
    expect(headers['ratelimit-remaining']).toBe(String(1000 - 10 * (FORGED.length + 1)))
    expect(await edge.metric('edge_reservations_total{outcome="issued"}')).toBe(0)
  })
}

function addresses(field: string | string[] | undefined): string[] {
  return [...new Set(String(field).split(/, */))]
}
