import { gzipSync } from 'node:zlib'
import { beforeAll, describe, expect, test } from 'vitest'
import { ADMIN_ENV, ADMIN_TOKEN, askAdmin } from '../../support/admin/admin-client.ts'
import { bundle } from '../../support/bundles/bundles.ts'
import { RawClient, statusesIn } from '../../support/proxy/proxy.ts'
import type { Edge } from '../../support/service/edge.ts'
import { ask } from '../../support/service/http.ts'
import { running } from '../../support/service/running.ts'
import { thisSuite } from '../../support/service/suite-owner.ts'
import { until } from '../../support/until.ts'

const PATH = '/admin/v1/explain'
const BEARER = ['Authorization', `Bearer ${ADMIN_TOKEN}`] as const
const HEAD = `POST ${PATH} HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer ${ADMIN_TOKEN}\r\n`
const GOOD = '{"method":"GET","uri":"/"}'

describe('the body of a request to the admin API', () => {
  const owner = thisSuite()
  let edge: Edge
  beforeAll(async () => {
    edge = await running({ bundle: bundle(1), env: ADMIN_ENV }, owner)
  })

  test.each([
    ['', 'is empty'],
    ['{', 'not JSON'],
    ['{"method":"GET",}', 'not JSON: unexpected "}" at line 1, column 17'],
    ['[]', 'must be a JSON object, got an empty list'],
    ['null', 'must be a JSON object, got null'],
    ['"x"', 'must be a JSON object, got "x"'],
    ['{"method":"GET","uri":"/","method":"POST"}', '"method" occurs twice in one object'],
    ['{"method":"GET","uri":"/","m\\u0065thod":"POST"}', '"method" occurs twice in one object'],
    ['{"method":"GET","uri":"/","__proto__":{"host":"h"}}', '"__proto__"'],
    ['{"method":"GET","uri":"/","headers":{"__proto__":"x"}}', '"__proto__"'],
    ['{"method":"GET","uri":"/","hots":"h"}', 'unknown fields: "hots"; expected method, uri'],
    [`{"a":${'['.repeat(30_000)}${']'.repeat(30_000)}}`, 'more than 16 levels'],
    [`{"a":${'{"a":'.repeat(20)}1${'}'.repeat(20)}}`, 'more than 16 levels'],
    ['['.repeat(60_000), 'more than 16 levels'],
    [Buffer.from('7b2261223a22ff227d', 'hex'), 'is not valid UTF-8'],
  ])('is refused with a sentence: %s', async (body, message) => {
    const answer = await ask(edge.adminPort, 'POST', PATH, [BEARER], body)
    expect(JSON.parse(answer.body)).toMatchObject({ error: { code: 'bad_request', message: expect.stringContaining(message) } })
    expect(answer.status).toBe(400)
  })

  test('may have any Content-Type, and come in chunks', async () => {
    for (const type of ['text/plain', 'application/x-www-form-urlencoded', 'application/json; charset=utf-8'])
      expect((await ask(edge.adminPort, 'POST', PATH, [BEARER, ['Content-Type', type]], GOOD)).status).toBe(200)
    const client = RawClient.connect(edge.adminPort)
    client.send(`${HEAD}Transfer-Encoding: chunked\r\n\r\n`)
    for (const character of GOOD) client.send(`1\r\n${character}\r\n`)
    client.send('0\r\n\r\n')
    await client.sees('HTTP/1.1 200 ')
  })

  test('must not be compressed', async () => {
    const answer = await ask(edge.adminPort, 'POST', PATH, [BEARER, ['Content-Encoding', 'gzip']], gzipSync(GOOD))
    expect([answer.status, answer.body]).toEqual([400, expect.stringContaining('Content-Encoding')])
  })

  test('of more than 64 KiB gets a response, and the connection goes on', async () => {
    const long = `{"method":"GET","uri":"/${'x'.repeat(100_000)}"}`
    const client = RawClient.connect(edge.adminPort)
    const chunk = `${long.length.toString(16)}\r\n${long}\r\n0\r\n\r\n`
    client.send(`${HEAD}Content-Length: ${long.length}\r\n\r\n${long}${HEAD}Transfer-Encoding: chunked\r\n\r\n${chunk}`)
    client.send(`${HEAD}Content-Length: ${GOOD.length}\r\n\r\n${GOOD}`)
    await until(() => statusesIn(client.received).length === 3)
    expect(statusesIn(client.received)).toEqual([400, 400, 200])
    expect(client.received).toContain('the body must not be larger than 64 KiB')
  })

  test('that is never sent to its end leaves nothing behind', async () => {
    const [gone, ended] = [RawClient.connect(edge.adminPort), RawClient.connect(edge.adminPort)]
    for (const client of [gone, ended]) client.send(`${HEAD}Content-Length: 1000\r\n\r\n{"method":`)
    gone.socket.destroy()
    ended.socket.end()
    expect(statusesIn(await ended.closed())).toEqual([400])
    const strict = { ...ADMIN_ENV, EDGE_REQUEST_TIMEOUT_MS: '300', EDGE_HEADERS_TIMEOUT_MS: '300' }
    const slow = RawClient.connect((await running({ bundle: bundle(1), env: strict })).adminPort)
    slow.send(`${HEAD}Content-Length: 1000\r\n\r\n{"method":`)
    expect(statusesIn(await slow.closed())).toEqual([408])
    expect((await askAdmin(edge.adminPort, 'GET', 'status')).status).toBe(200)
    expect(edge.logged('admin_failed')).toEqual([])
  })

  test('is not waited for where the token is wrong', async () => {
    const client = RawClient.connect(edge.adminPort)
    client.send(`POST ${PATH} HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer wrong\r\nContent-Length: 1000\r\n\r\n{`)
    await client.sees('HTTP/1.1 401 ')
  })
})
