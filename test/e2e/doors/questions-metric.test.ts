import { describe, expect, test } from 'vitest'
import { HttpBackend } from '../../support/proxy/backend.ts'
import { proxying } from '../../support/proxy/proxy.ts'
import { askThrough, HTTP_DOORS } from '../../support/service/doors.ts'
import { ask, exchange } from '../../support/service/http.ts'
import { CALLER, LIMITS, questions } from '../../support/service/question-counts.ts'
import { running } from '../../support/service/running.ts'

describe.each(HTTP_DOORS.map((door) => [door.name, door] as const))('questions through %s are counted once each', (name, door) => {
  test('as allowed, rejected or refused', async () => {
    const edge = await running({ bundle: LIMITS })
    for (let i = 0; i < 3; i++) await askThrough(door, edge.port, { fields: CALLER })
    // Without a caller; what a shadow policy would reject is allowed.
    await askThrough(door, edge.port)
    await askThrough(door, edge.port, { fields: [...CALLER, ...CALLER] })
    expect(await questions(edge.port)).toEqual({ [name]: [2, 2, 1] })
  })

  // A question of ext_authz is itself the original request.
  test.skipIf(name === 'ext_authz')('as refused when they cannot be read', async () => {
    const edge = await running({ bundle: LIMITS })
    const head = `${door.ownMethod} ${door.path} HTTP/1.1\r\nHost: edge\r\nConnection: close\r\n\r\n`
    expect(await exchange(edge.port, head)).toContain('X-Edge-Reason: missing_original_method\r\n')
    expect(await questions(edge.port)).toEqual({ [name]: [0, 0, 1] })
  })
})

describe('no question is', () => {
  test('a request that is not HTTP, has another path or another method', async () => {
    const edge = await running({ bundle: LIMITS })
    await exchange(edge.port, 'GET /v1/ext-authz/ HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n')
    await exchange(edge.port, 'GET /v1/forward-auth HTTP/9.9\r\nHost: edge\r\n\r\n')
    await exchange(edge.port, `GET /v1/ext-authz/ HTTP/1.1\r\nHost: edge\r\nX: ${'x'.repeat(70_000)}\r\n\r\n`)
    expect((await ask(edge.port, 'GET', '/v1/decision')).status).toBe(405)
    expect((await ask(edge.port, 'GET', '/v1/forward-auth/x')).status).toBe(404)
    expect((await ask(edge.port, 'GET', '/livez')).status).toBe(200)
    expect(await questions(edge.port)).toEqual({})
  })
})

describe('requests through the proxy are counted once each', () => {
  test('as allowed, rejected or refused', async () => {
    const edge = await proxying(await HttpBackend.start(), { bundle: LIMITS })
    for (let i = 0; i < 2; i++) await edge.get('/', CALLER)
    await edge.get('/', [...CALLER, ...CALLER])
    await exchange(edge.port, 'GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n')
    await exchange(edge.port, 'nonsense\r\n\r\n')
    expect(await questions(edge.port)).toEqual({ proxy: [1, 1, 3] })
  })
})
