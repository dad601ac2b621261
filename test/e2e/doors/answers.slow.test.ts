import { METHODS } from 'node:http'
import { describe, expect, test } from 'vitest'
import { bucketRule, bundle, policy } from '../../support/bundles/bundles.ts'
import { caller, OTHERS, RULES } from '../../support/service/door-answers.ts'
import { askThrough, FORWARD_AUTH, questionBytes } from '../../support/service/doors.ts'
import { exchange, type Fields } from '../../support/service/http.ts'
import { ManualClock } from '../../support/service/manual-clock.ts'
import { running } from '../../support/service/running.ts'
import { readAnswers } from '../../support/service/wire.ts'

const SECRET = 'a secret for tests'

describe.each(OTHERS.map((door) => [door.path, door] as const))('%s', (_path, door) => {
  test('shows debug headers to a session', async () => {
    const edge = await running({ bundle: RULES, env: { EDGE_DEBUG_SESSION_SECRET: SECRET } })
    const login = await edge.post('/v1/debug/session', [['X-Edge-Debug-Secret', SECRET]])
    const cookie: Fields = [['Cookie', login.headers['set-cookie']!.split(';')[0]!]]
    const { headers } = await askThrough(door, edge.port, { fields: [...caller('a'), ...cookie] })
    expect(headers).toMatchObject({ 'x-edge-debug-policy': 'callers', 'x-edge-debug-descriptor-1-value': 'a' })
    expect((await askThrough(door, edge.port, { fields: caller('a') })).headers).not.toHaveProperty('x-edge-debug-policy')
  })

  test('without a bundle: 503', async () => {
    const edge = await running()
    expect(await askThrough(door, edge.port)).toMatchObject({
      status: 503,
      headers: { 'x-edge-reason': 'no_bundle_loaded', 'content-length': '0' },
    })
  })

  test('can be asked with any method', async () => {
    const edge = await running({ bundle: bundle(1, policy('p', { rules: [bucketRule('r', [], 100)] })), clock: new ManualClock() })
    const methods = METHODS.filter((method) => method !== 'CONNECT')
    const questions = methods.map((method, i) => questionBytes(door, { method }, { ownMethod: method, isLast: i === methods.length - 1 }))
    const received = await exchange(edge.port, Buffer.concat(questions))
    expect(readAnswers(received).map(({ headers }) => Number(headers['ratelimit-remaining']))).toEqual(methods.map((_, i) => 99 - i))
    // Not a byte more than heads, for HEAD and for all others.
    expect(
      received
        .split('\r\n\r\n')
        .slice(0, -1)
        .every((head) => head.startsWith('HTTP/1.1 200 OK\r\n')),
    ).toBe(true)
    expect(received.endsWith('\r\n\r\n')).toBe(true)
  })
})

describe('the path of a question', () => {
  test.each(OTHERS.map(({ path }) => path))('%s may have a query or be in absolute form', async (path) => {
    const edge = await running({ bundle: RULES })
    const reasons: (string | undefined)[] = []
    for (const target of [path, `${path}?`, `${path}?next=/v1/decision`, `http://edge${path}?a#b`]) {
      const head = `GET ${target} HTTP/1.1\r\nHost: edge\r\nConnection: close\r\n\r\n`
      reasons.push(readAnswers(await exchange(edge.port, head))[0]!.headers['x-edge-reason'])
    }
    expect(new Set(reasons).size).toBe(1)
    expect(reasons[0]).toBe(path === '/v1/ext-authz' ? undefined : 'missing_original_method')
  })

  test('CONNECT opens no tunnel through any of them', async () => {
    const edge = await running({ bundle: RULES })
    expect(await exchange(edge.port, 'CONNECT /v1/ext-authz/ HTTP/1.1\r\nHost: edge\r\n\r\n')).toMatch(/^HTTP\/1\.1 405 /)
    expect((await askThrough(FORWARD_AUTH, edge.port)).status).toBe(200)
  })
})
