import { describe, expect, test } from 'vitest'
import { bucketRule, bundle, policy } from '../../support/bundles/bundles.ts'
import { HttpBackend } from '../../support/proxy/backend.ts'
import { proxying } from '../../support/proxy/proxy.ts'
import { caller, OTHERS, RULES } from '../../support/service/door-answers.ts'
import { askThrough, DECISION, HTTP_DOORS, questionBytes } from '../../support/service/doors.ts'
import { ask, exchange, type Fields } from '../../support/service/http.ts'
import { ManualClock } from '../../support/service/manual-clock.ts'
import { running } from '../../support/service/running.ts'
import { readAnswers, type WireAnswer } from '../../support/service/wire.ts'
import { ASKED, budgetBundle, settle } from '../../support/settle/settling.ts'

describe.each(OTHERS.map((door) => [door.path, door] as const))('%s', (_path, door) => {
  test('answers as /v1/decision does: allowed, rejected, blocked, refused', async () => {
    const questions = [
      { fields: caller('a') },
      { fields: caller('a') },
      { fields: caller('a') },
      { uri: '/blocked/x', fields: caller('b') },
      { fields: [...caller('c'), ...caller('d')] },
      { uri: '/by-host', host: 'api.example.com' },
      { uri: '/by-host', host: 'a,b.example.com' },
      { method: 'POST', uri: '/posts?q=1' },
      { method: 'POST', uri: '/posts/%2e?x=%20&q=1' },
      { method: 'PUT', uri: '/posts?q=1' },
      { uri: '/free' },
    ]
    const [expected, answers] = await Promise.all(
      [DECISION, door].map(async (each) => {
        const edge = await running({ bundle: RULES, clock: new ManualClock() })
        const bytes = questions.map((question, i) => questionBytes(each, question, { isLast: i === questions.length - 1 }))
        return readAnswers(await exchange(edge.port, Buffer.concat(bytes))).map(withoutDate)
      }),
    )
    expect(expected!.map(({ status }) => status)).toEqual([200, 200, 429, 403, 400, 200, 400, 200, 429, 200, 200])
    expect(expected!.every(({ headers }) => headers['content-length'] === '0')).toBe(true)
    expect(answers).toEqual(expected)
  })

  test('reads the address from X-Forwarded-For', async () => {
    const edge = await running({ bundle: RULES, clock: new ManualClock() })
    const status = async (list: string): Promise<number> =>
      (await askThrough(door, edge.port, { uri: '/ip', fields: [['X-Forwarded-For', list]] })).status
    expect(await status('203.0.113.7, 10.0.0.1')).toBe(200)
    expect(await status('198.51.100.1, 203.0.113.7')).toBe(429)
    expect(await status('203.0.113.8')).toBe(200)
  })

  test('takes from a token budget what the hints say, and lets it be settled', async () => {
    const edge = await running({ bundle: budgetBundle(1000), env: { EDGE_GATEWAY_HINTS: 'on' }, clock: new ManualClock() })
    const hints: Fields = [
      ['X-Key', 'a'],
      ['X-Edge-Prompt-Tokens', '30'],
      ['X-Edge-Max-Tokens', '20'],
    ]
    const { status, headers } = await askThrough(door, edge.port, { method: 'POST', uri: '/v1/chat', fields: [...hints, ...ASKED] })
    expect([status, headers['ratelimit-remaining']]).toEqual([200, '950'])
    expect((await settle(edge.port, headers['x-edge-reservation']!, { prompt_tokens: 30, completion_tokens: 5 })).status).toBe(204)
    const next = await askThrough(door, edge.port, { method: 'POST', uri: '/v1/chat', fields: [['X-Key', 'a']] })
    expect(next.headers['ratelimit-remaining']).toBe('865')
    expect(next.headers).not.toHaveProperty('x-edge-reservation')
  })

  test('is a path of the backend in reverse_proxy', async () => {
    const backend = await HttpBackend.start()
    const edge = await proxying(backend, { bundle: RULES })
    await askThrough(door, edge.port, { uri: '/x', host: 'edge.test', fields: caller('a') })
    expect(backend.seen.map(({ url }) => url)).toEqual([door.describe('GET', '/x', undefined).target])
  })
})

test('a caller has one limit, whichever way its requests are asked about', async () => {
  const edge = await running({
    bundle: bundle(1, policy('p', { rules: [bucketRule('r', ['header:x-caller'], 3)] })),
    clock: new ManualClock(),
  })
  const statuses: number[] = []
  for (const door of HTTP_DOORS) statuses.push((await askThrough(door, edge.port, { fields: caller('a') })).status)
  expect(statuses).toEqual([200, 200, 200, 429])
})

describe('the path of a question', () => {
  test('is compared to the letter: 404 for any other', async () => {
    const edge = await running({ bundle: RULES })
    for (const path of [
      ...['/v1/forward-auth/', '/v1/forward-auth/x', '/v1/forward-authx', '//v1/forward-auth', '/V1/forward-auth', '/v1/auth-request/'],
      ...['/v1/auth-requests', '/v1/ext-authzx', '/v1/ext-authz*', '/v1/ext-authz%2Fx', '/v1/ext_authz/x', '/v1'],
    ])
      for (const method of ['GET', 'POST']) expect([path, (await ask(edge.port, method, path)).status]).toEqual([path, 404])
  })

  test('/v1/decision takes POST alone', async () => {
    const edge = await running({ bundle: RULES })
    for (const method of ['GET', 'HEAD', 'PUT', 'OPTIONS'])
      expect(await askThrough(DECISION, edge.port, {}, method)).toMatchObject({ status: 405, headers: { allow: 'POST' } })
  })
})

function withoutDate({ status, headers: { date: _, ...headers } }: WireAnswer): WireAnswer {
  return { status, headers }
}
