import { expect, test } from 'vitest'
import { bucketRule, bundle, policy } from '../../support/bundles/bundles.ts'
import { HttpBackend } from '../../support/proxy/backend.ts'
import { proxying, RawClient } from '../../support/proxy/proxy.ts'
import type { Edge } from '../../support/service/edge.ts'
import { ManualClock } from '../../support/service/manual-clock.ts'

/** query:, cookie: and path: keys of requests on their way through. */

type Head = readonly [target: string, ...lines: readonly string[]]

test.each<[key: string, heads: readonly Head[], other: Head]>([
  ['query:key', [['/?key=abc'], ['/?key=%61bc'], ['/?x=1&k%65y=abc'], ['http://a/?key=abc']], ['/?key=b']],
  ['query:key', [['/?key=a+b'], ['/?key=a%20b']], ['/?key=a']],
  [
    'cookie:sid',
    [
      ['/', 'Cookie: sid=abc'],
      ['/', 'Cookie: x=1; sid="abc"; SID=y'],
      ['/', 'cookie: x=1', 'Cookie: sid=%61bc'],
    ],
    ['/', 'Cookie: sid=b'],
  ],
  ['path:2', [['/t/acme'], ['//t/x/../acme/y'], ['/t/%61cme?z']], ['/t/b']],
])('a caller has one bucket under %s, however it is spelled, and the backend sees what came', async (key, heads, other) => {
  const [edge, backend] = await limited(key)
  const statuses: number[] = []
  for (const head of heads) statuses.push(await statusOf(edge, head))
  expect(statuses).toEqual([200, ...heads.slice(1).map(() => 429)])
  expect(await statusOf(edge, other)).toBe(200)
  expect(backend.seen.map(({ url }) => url)).toEqual([heads[0]![0], other[0]])
})

test.each<[key: string, head: Head]>([
  ['query:key', ['/?key=a&key=b']],
  ['query:key', ['/?key=a&%6Bey']],
  ['cookie:sid', ['/', 'Cookie: sid=a', 'Cookie: sid=b']],
])('what comes twice is refused under %s, and the backend is not asked: %j', async (key, head) => {
  const [edge, backend] = await limited(key)
  const client = RawClient.connect(edge.port)
  client.send(bytesOf(head))
  const { status, body } = await client.next()
  expect([status, JSON.parse(body).error]).toMatchObject([400, { type: 'invalid_request_error', code: 'repeated_descriptor' }])
  expect(backend.seen).toEqual([])
})

async function limited(key: string): Promise<[Edge, HttpBackend]> {
  const backend = await HttpBackend.start()
  const rules = [bucketRule('r', [key], 1)]
  return [await proxying(backend, { clock: new ManualClock(), bundle: bundle(1, policy('p', { rules })) }), backend]
}

async function statusOf(edge: Edge, head: Head): Promise<number> {
  const client = RawClient.connect(edge.port)
  client.send(bytesOf(head))
  return (await client.next()).status
}

function bytesOf([target, ...lines]: Head): string {
  return `${[`GET ${target} HTTP/1.1`, 'Host: a', ...lines].join('\r\n')}\r\n\r\n`
}
