import { expect, test } from 'vitest'
import { FollowedKeySets, KeySetServer } from '../../../test/support/callers/followed-key-sets.ts'
import { until } from '../../../test/support/until.ts'
import type { KeySetEntry } from './key-source.ts'
import { type EntryKeySets, type OpenKeySet, QUESTION_WAIT_MS } from './worker-key-sets.ts'

const SECOND_MS = 1000

test('a token of a new key waits until the set has it', async () => {
  const { followed, server, worker } = await serving('old')
  const release = server.hold('old', 'new')
  const waiting = worker.wait('okta', 'new')
  expect(waiting).toBeInstanceOf(Promise)
  release()
  expect(await waiting).toBeUndefined()
  expect([worker.of('okta')!.has('new'), server.fetches, followed.asks]).toEqual([true, 2, 1])
})

test('a rotation makes no token of the new key fail, however many come, at all workers', async () => {
  const { followed, server, entry, worker } = await serving('old')
  const others = [followed.worker(entry), followed.worker(entry)]
  const release = server.hold('new')
  const waits = [worker, ...others].flatMap((each) => Array.from({ length: 50 }, () => each.wait('okta', 'new')))
  await until(() => server.fetches === 2)
  waits.push(...others.map((each) => each.wait('okta', 'new')))
  release()
  expect(new Set(await Promise.all(waits))).toEqual(new Set([undefined]))
  expect(server.fetches).toBe(2)
  expect(others.map((each) => each.of('okta')!.has('new'))).toEqual([true, true])
})

test('a key that was published while a fetch was under way is fetched once more', async () => {
  const { followed, server, worker } = await serving('old')
  const release = server.hold('old')
  followed.advance(600 * SECOND_MS)
  await until(() => server.fetches === 2)
  followed.advance(1)
  const waiting = worker.wait('okta', 'new')
  await followed.delivered()
  server.publish('old', 'new')
  release()
  expect(await waiting).toBeUndefined()
  expect([server.fetches, followed.asks]).toEqual([3, 2])
})

test('a key that the issuer does not have is unknown, and stays so for half a minute without another fetch', async () => {
  const { followed, server, worker } = await serving('a')
  expect(await worker.wait('okta', 'x')).toBe('unknown_key')
  followed.advance(29.999 * SECOND_MS)
  expect(worker.wait('okta', 'x')).toBe('unknown_key')
  expect(server.fetches).toBe(2)
  followed.advance(1)
  expect(await worker.wait('okta', 'x')).toBe('unknown_key')
  expect(server.fetches).toBe(3)
})

test('within that half minute nobody knows about another key', async () => {
  const { followed, server, worker } = await serving('a')
  await worker.wait('okta', 'x')
  followed.advance(1)
  server.publish('a', 'y')
  expect(worker.wait('okta', 'y')).toBe('keys_unavailable')
  followed.advance(30 * SECOND_MS)
  expect(await worker.wait('okta', 'y')).toBeUndefined()
})

test('the reading at activation does not count as one for an unknown key, and neither does the regular one', async () => {
  const { followed, server, worker } = await serving('a')
  followed.advance(600 * SECOND_MS)
  await until(() => followed.metric('edge_key_set_fetches_total')['okta good'] === 2)
  server.publish('b')
  expect(await worker.wait('okta', 'b')).toBeUndefined()
  expect(server.fetches).toBe(3)
})

test('a million keys that nobody has cost the issuer one request in half a minute', async () => {
  const { followed, server, entry, worker } = await serving('a')
  const workers = [worker, followed.worker(entry)]
  const answers = new Set<unknown>()
  const waits: unknown[] = []
  for (let i = 0; i < 1_000_000; i++) {
    const answer = workers[i % 2]!.wait('okta', `k${i}`)
    if (answer instanceof Promise) waits.push(answer)
    else answers.add(answer)
  }
  expect(waits).toHaveLength(200)
  for (const answer of await Promise.all(waits)) answers.add(answer)
  for (let i = 0; i < 1000; i++) answers.add(await worker.wait('okta', `l${i}`))
  expect([...answers].sort()).toEqual(['keys_unavailable', 'unknown_key'])
  expect([server.fetches, followed.asks <= 4]).toEqual([2, true])
  followed.advance(30 * SECOND_MS)
  await worker.wait('okta', 'again')
  expect(server.fetches).toBe(3)
})

test('at most 100 requests of a worker wait, over all its issuers; more do not know', async () => {
  const servers = [await KeySetServer.start('a'), await KeySetServer.start('a')]
  const entries = servers.map(({ url }, i) => ({ name: `issuer-${i}`, jwks_url: url }))
  const followed = new FollowedKeySets()
  const worker = followed.worker(...entries)
  await followed.use(...entries)
  followed.advance(1)
  const releases = servers.map((server) => server.hold('a', 'b'))
  const waits = Array.from({ length: 100 }, (_, i) => worker.wait(`issuer-${i % 2}`, 'b'))
  expect([worker.wait('issuer-0', 'b'), worker.wait('issuer-1', 'b')]).toEqual(['keys_unavailable', 'keys_unavailable'])
  for (const release of releases) release()
  expect(new Set(await Promise.all(waits))).toEqual(new Set([undefined]))
  followed.advance(30 * SECOND_MS)
  servers[0]!.publish('a', 'b', 'c')
  expect(await worker.wait('issuer-0', 'c')).toBeUndefined()
})

test('a request waits for two seconds, and once one has waited in vain nobody waits for that answer', async () => {
  const { followed, server, worker } = await serving('a')
  const release = server.hold('a', 'b')
  const waiting = worker.wait('okta', 'b')
  followed.advance(1999)
  const joined = worker.wait('okta', 'b')
  expect(joined).toBeInstanceOf(Promise)
  followed.advance(1)
  expect(await waiting).toBe('keys_unavailable')
  expect(worker.wait('okta', 'b')).toBe('keys_unavailable')
  await until(() => server.fetches === 2)
  release()
  expect(await joined).toBeUndefined()
  expect(worker.of('okta')!.has('b')).toBe(true)
})

test('a question of a gateway waits for half a second, because gateways give up after one', async () => {
  const { followed, server, entry } = await serving('a')
  const worker = followed.workerWaiting(QUESTION_WAIT_MS, entry)
  server.hold('a', 'b')
  const waiting = worker.wait('okta', 'b')
  followed.advance(500)
  expect(await waiting).toBe('keys_unavailable')
})

test('during an outage keys that are known are used, and others are unavailable at once', async () => {
  const { followed, server, worker } = await serving('a')
  server.fail()
  expect(await worker.wait('okta', 'b')).toBe('keys_unavailable')
  expect(worker.wait('okta', 'b')).toBe('keys_unavailable')
  expect(worker.of('okta')!.has('a')).toBe(true)
  server.publish('a', 'b')
  followed.advance(5 * SECOND_MS)
  await followed.untilLogged('key_set_loaded', 2)
  expect(worker.of('okta')!.has('b')).toBe(true)
})

test('a key that was seen in an outage is unknown once the set was read after it', async () => {
  const { followed, server, worker } = await serving('a')
  server.fail()
  expect(await worker.wait('okta', 'x')).toBe('keys_unavailable')
  server.publish('a', 'b')
  followed.advance(5 * SECOND_MS)
  await followed.untilLogged('key_set_loaded', 2)
  expect(worker.wait('okta', 'x')).toBe('unknown_key')
})

test('requests wait for the first set, also those that name no key', async () => {
  const server = await KeySetServer.start()
  const release = server.hold('a')
  const followed = new FollowedKeySets({ pause: async () => {} })
  const entry = { name: 'okta', jwks_url: server.url }
  const worker = followed.worker(entry)
  await followed.use(entry)
  followed.advance(1)
  const waits = [worker.wait('okta', 'a'), worker.wait('okta', undefined), worker.wait('okta', 'x')]
  await until(() => server.fetches === 1)
  release()
  expect(await Promise.all(waits)).toEqual([undefined, undefined, 'unknown_key'])
  expect(server.fetches).toBe(2)
})

test('a set that was never read makes keys unavailable', async () => {
  const server = await KeySetServer.start()
  server.fail()
  const followed = new FollowedKeySets()
  const entry = { name: 'okta', jwks_url: server.url }
  const worker = followed.worker(entry)
  await followed.use(entry)
  expect(await worker.wait('okta', 'a')).toBe('keys_unavailable')
  expect(worker.wait('okta', undefined)).toBe('keys_unavailable')
  expect(worker.wait('other', 'a')).toBe('keys_unavailable')
})

test('a key that was withdrawn is gone, and counts as new when it comes back', async () => {
  const { followed, server, worker } = await serving('a', 'b')
  server.publish('b')
  expect(await worker.wait('okta', 'x')).toBe('unknown_key')
  expect(worker.of('okta')!.has('a')).toBe(false)
  followed.advance(1)
  expect(worker.wait('okta', 'a')).toBe('keys_unavailable')
  server.publish('a', 'b')
  followed.advance(30 * SECOND_MS)
  expect(await worker.wait('okta', 'a')).toBeUndefined()
  server.publish('b')
  followed.advance(600 * SECOND_MS)
  await until(() => !worker.of('okta')!.has('a'))
  followed.advance(1)
  expect(await worker.wait('okta', 'a')).toBe('unknown_key')
})

test('a bundle that drops the issuer ends the waits for its keys', async () => {
  const { followed, server, worker } = await serving('a')
  server.hold('a', 'b')
  const waiting = worker.wait('okta', 'b')
  await until(() => server.fetches === 2)
  await followed.use()
  expect(await waiting).toBe('keys_unavailable')
  expect([worker.of('okta'), worker.wait('okta', 'a')]).toEqual([undefined, 'keys_unavailable'])
})

test('a worker that asks for a set that is gone is told so', async () => {
  const { followed, worker } = await serving('a')
  const waiting = worker.wait('okta', 'b')
  await followed.keySets.switchTo([], async () => {})
  expect(await waiting).toBe('keys_unavailable')
})

test('a worker that starts later has the sets, and knows how recently they were read', async () => {
  const { followed, server, entry, worker } = await serving('a')
  await worker.wait('okta', 'x')
  const late = followed.worker(entry)
  expect(late.of('okta')!.has('a')).toBe(true)
  followed.advance(1)
  expect(late.wait('okta', 'y')).toBe('keys_unavailable')
  expect([server.fetches, followed.asks]).toEqual([2, 1])
})

test('the set is the same object as long as its keys do not change', async () => {
  const { followed, server, worker } = await serving('a')
  const first = worker.of('okta')
  await worker.wait('okta', 'x')
  expect(worker.of('okta')).toBe(first)
  server.publish('a', 'b')
  followed.advance(30 * SECOND_MS)
  await worker.wait('okta', 'b')
  expect(worker.of('okta')).not.toBe(first)
})

test('the texts of unknown keys are remembered within bounds', async () => {
  const { followed, worker } = await serving('a')
  const long = 'x'.repeat(257)
  expect(await worker.wait('okta', 'first')).toBe('unknown_key')
  followed.advance(1)
  expect(worker.wait('okta', 'first')).toBe('unknown_key')
  expect(worker.wait('okta', long)).toBe('keys_unavailable')
  for (let i = 0; i < 1000; i++) worker.wait('okta', `k${i}`)
  expect(worker.wait('okta', 'first')).toBe('keys_unavailable')
})

interface Serving {
  readonly followed: FollowedKeySets
  readonly server: KeySetServer
  readonly entry: KeySetEntry
  readonly worker: EntryKeySets<OpenKeySet>
}

/** One issuer with these keys, and a worker that knows them. */
async function serving(...kids: string[]): Promise<Serving> {
  const server = await KeySetServer.start(...kids)
  const followed = new FollowedKeySets()
  const entry = { name: 'okta', jwks_url: server.url }
  const worker = followed.worker(entry)
  await followed.use(entry)
  followed.advance(1)
  return { followed, server, entry, worker }
}
