import fc from 'fast-check'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { bucketRule, bundle, llmRule, policy } from '../bundles/bundles.ts'
import { talkOf } from './hostile-heads.ts'
import { ask } from './http.ts'
import { oddTalks, type Talk } from './odd-heads.ts'
import { converse, type ListeningServer, startServer } from './two-wires.ts'

const SECRET = 'a secret for tests'
const LANES = 12
/** So many heads of chance bring everything. */
const MIN_FOR_ALL = 400

// Every rule is keyed by the caller, and every talk has a caller of its own: answers do not depend on who comes first.
const BUNDLE = bundle(
  1,
  policy('callers', {
    rules: [bucketRule('caller', ['header:x-api-key'], 25), bucketRule('team', ['header:x-api-key', 'header:x-team'], 5)],
  }),
  policy('api', { selector: { pathPrefix: '/api' }, rules: [bucketRule('api', ['header:x-api-key', 'ip:address'], 10)] }),
  policy('claims', { selector: { methods: ['POST'] }, rules: [bucketRule('sub', ['header:x-api-key', 'jwt:sub'], 4)] }),
  policy('hosts', { selector: { pathPrefix: '/by-host', hosts: ['a.example.com'] }, rules: [bucketRule('host', ['header:x-api-key'], 6)] }),
  policy('tokens', { selector: { pathPrefix: '/api' }, rules: [bucketRule('token', ['bearer', 'header:x-api-key'], 8)] }),
  policy('parts', {
    selector: { pathPrefix: '/api' },
    rules: ['query:y', 'cookie:a', 'path:2', 'llm:model'].map((key) => bucketRule(key, [key, 'header:x-api-key'], 7)),
  }),
  policy('budget', {
    selector: { pathPrefix: '/api' },
    rules: [llmRule('budget', ['header:x-api-key'], { tokens_per_day: 9000, max_completion_tokens: 300 })],
  }),
  policy('teams', { mode: 'shadow', rules: [bucketRule('teams', ['header:x-team', 'header:x-api-key'], 3)] }),
  policy('next', { mode: 'shadow', rules: [bucketRule('next', ['header:x-api-key'], 15)] }),
)

export interface TwoWiresOptions {
  /** Of chance, at least. */
  readonly heads: number
  /** Twelve talks each, after which the heads are counted. */
  readonly batch: number
  /** Of the oddities, every so many comes alone; 1: all of them. */
  readonly oddStep: number
}

/** Sends heads to a server with the fast wire and to one without. */
export function twoWiresSuite({ heads: minHeads, batch, oddStep }: TwoWiresOptions): void {
  let servers: ListeningServer[]
  let cookie: string
  beforeAll(async () => {
    const env = { EDGE_DEBUG_SESSION_SECRET: SECRET, EDGE_GATEWAY_HINTS: 'on' }
    servers = await Promise.all([false, true].map((hasFastWire) => startServer(BUNDLE, { hasFastWire, env })))
    const login = await ask(servers[0]!.port, 'POST', '/v1/debug/session', [['X-Edge-Debug-Secret', SECRET]])
    cookie = login.headers['set-cookie']!.split(';')[0]!
  })
  afterAll(() => Promise.all(servers.map((server) => server.close())))

  test('every oddity alone gets the same answers on both wires', async () => {
    const talks = [...oddTalks('alone')].filter((_, i) => i % oddStep === 0)
    const [alone, both] = await Promise.all(servers.map(({ port }) => converseAll(port, talks)))
    talks.forEach((talk, i) => {
      const input = talk.odd.map(textOf)
      const answers = agree(alone![i]!, both![i]!, talk) ? alone![i] : both![i]
      expect({ input, answers }).toEqual({ input, answers: alone![i] })
    })
  })

  test('whatever comes, however cut, gets the same answers and the same counts on both wires', { timeout: 300_000 }, async () => {
    let run = 0
    let heads = 0
    const talks = fc.integer().chain(() => {
      run++
      return fc.tuple(...Array.from({ length: LANES }, (_, lane) => talkOf(`run-${run}-lane-${lane}`, cookie)))
    })
    const sameAnswers = fc.asyncProperty(talks, async (list: readonly Talk[]) => {
      const [alone, both] = await Promise.all(servers.map(({ port }) => Promise.all(list.map((talk) => converse(port, talk)))))
      list.forEach((talk, i) => {
        const input = { plain: talk.plain.map(textOf), odd: talk.odd.map(textOf) }
        const answers = agree(alone![i]!, both![i]!, talk) ? alone![i] : both![i]
        expect({ input, answers }).toEqual({ input, answers: alone![i] })
      })
      heads += list.reduce((sum, { plainHeads, oddHeads }) => sum + plainHeads + oddHeads, 0)
    })
    // How many heads a talk has is left to chance, and small ones come first.
    do await fc.assert(sameAnswers, { numRuns: batch, endOnFailure: true })
    while (heads < minHeads)
    const [alone, both] = await Promise.all(servers.map(({ port }) => decisionMetrics(port)))
    expect(both).toEqual(alone)
    expect(alone!.length).toBeGreaterThan(10)
    // Some things are rare: a short run may lack them.
    if (minHeads < MIN_FOR_ALL) return
    expect(alone!.join()).toContain('reason="repeated_descriptor"')
    for (const door of ['decision', 'forward_auth', 'auth_request', 'ext_authz']) {
      for (const outcome of ['allow', 'reject', 'refuse'])
        expect(alone!.join()).toContain(`edge_questions_total{door="${door}",outcome="${outcome}"}`)
    }
    expect(alone!.join()).toMatch(/edge_reservations_total\{outcome="issued"\} \d\d/)
  })
}

/** What a server answers to each of these, some at a time. */
async function converseAll(port: number, talks: readonly Talk[]): Promise<string[]> {
  const answers: string[] = []
  for (let i = 0; i < talks.length; i += LANES)
    answers.push(...(await Promise.all(talks.slice(i, i + LANES).map((talk) => converse(port, talk)))))
  return answers
}

/**
 * Nonsense that comes in one read with a request: whether `node:http` says 400 to it or just closes is a matter of turns, not of what
 * came. Both are the same to us, then; nonsense that comes alone must get its 400 on both.
 */
function agree(alone: string, both: string, { plainHeads }: Talk): boolean {
  if (alone === both) return true
  const [shorter, longer] = alone.length < both.length ? [alone, both] : [both, alone]
  const isAfterOddAnswer = shorter.split('\r\n\r\n').length - 1 > plainHeads
  return isAfterOddAnswer && longer.startsWith(shorter) && LAST_WORDS.test(longer.slice(shorter.length))
}

const LAST_WORDS = /^HTTP\/1\.1 4\d\d [\w ]+\r\nConnection: close\r\n\r\n$/

async function decisionMetrics(port: number): Promise<string[]> {
  const { body } = await ask(port, 'GET', '/metrics')
  return body.split('\n').filter((line) => /^edge_(questions|decisions|descriptor|would|refused|decision_|reservations)/.test(line))
}

function textOf(piece: Buffer): string {
  return piece.toString('latin1')
}
