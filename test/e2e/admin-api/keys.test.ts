import { readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { beforeAll, describe, expect, test } from 'vitest'
import { encodeKey } from '../../../src/callers/keys/issued-key.ts'
import { lineOf } from '../../../src/callers/keys/key-file-seal.ts'
import { ADMIN_ENV, type AdminResponse, askAdmin } from '../../support/admin/admin-client.ts'
import { bucketRule, bundle, policy } from '../../support/bundles/bundles.ts'
import { writeKeyFile } from '../../support/keys/key-file.ts'
import { sampleKey } from '../../support/keys/sample-keys.ts'
import type { Edge } from '../../support/service/edge.ts'
import { ManualClock } from '../../support/service/manual-clock.ts'
import { running } from '../../support/service/running.ts'
import { thisSuite } from '../../support/service/suite-owner.ts'
import { stallDisk } from '../../support/stalled-disk.ts'
import { smallDisk } from '../../support/state/faulty-disk.ts'
import { newFolder } from '../../support/state/state.ts'
import { until } from '../../support/until.ts'

const BUNDLE = bundle(1, policy('p', { rules: [bucketRule('r', ['header:x-k'], 10)] }))
const TEAM = { labels: { team: 'search', user: 'ada' }, reason: 'a new team' }

function service(env: Readonly<Record<string, string>> = {}): Promise<Edge> {
  return running({ bundle: BUNDLE, env: { ...ADMIN_ENV, ...env } })
}

const create = (edge: Edge, body: object = TEAM): Promise<AdminResponse> => askAdmin(edge.adminPort, 'POST', 'keys', { body, actor: 'ada' })

describe('an issued key', () => {
  test('is shown once, with who issued it and why, and never logged', async () => {
    const edge = await service()
    const { status, headers, json } = await create(edge, { ...TEAM, expires_at: '90d' })
    expect(status).toBe(201)
    expect(headers['cache-control']).toBe('no-store')
    const { key, ...shown } = json
    expect(key).toMatch(/^edge_[A-Za-z0-9_-]{43}$/)
    expect(shown).toMatchObject({ labels: TEAM.labels, status: 'active', actor: 'ada', reason: TEAM.reason, edited: null, durable: false })
    const found = await askAdmin(edge.adminPort, 'GET', `keys/${json.id}`)
    expect(found.json).toEqual(shown)
    expect(JSON.stringify(edge.log)).not.toContain(key)
    expect(JSON.stringify(edge.log)).not.toContain(json.digest)
    expect(edge.log.filter(({ event }) => event === 'key_created')).toMatchObject([{ id: json.id, actor: 'ada', reason: TEAM.reason }])
    expect(JSON.stringify(edge.log)).not.toContain('"search"')
  })

  test('is changed, revoked for good, and listed as such; all of it is a change with an actor and a reason', async () => {
    const edge = await service()
    const { id } = (await create(edge)).json
    const change = (body: object) => askAdmin(edge.adminPort, 'PATCH', `keys/${id}`, { body, actor: 'eve' })
    expect((await change({ labels: { team: 'ads' }, reason: 'moved' })).json).toMatchObject({
      labels: { team: 'ads' },
      edited: { actor: 'eve' },
    })
    expect((await change({ expires_at: '2100-01-01T00:00:00Z', reason: 'ends' })).json).toMatchObject({
      labels: { team: 'ads' },
      expires_at: '2100-01-01T00:00:00.000Z',
    })
    expect((await change({ expires_at: null, reason: 'no end' })).json.expires_at).toBeNull()
    const revoke = () => askAdmin(edge.adminPort, 'DELETE', `keys/${id}?reason=leaked`, { actor: 'eve' })
    expect([await revoke(), await revoke()].map(({ status, json }) => [status, json])).toEqual([
      [200, { streams_ended: 0 }],
      [200, { streams_ended: 0 }],
    ])
    expect((await change({ expires_at: null, reason: 'back' })).json.error).toMatchObject({ code: 'key_revoked' })
    const { json } = await askAdmin(edge.adminPort, 'GET', 'keys')
    expect(json).toMatchObject({ next: null, keys: [{ id, status: 'revoked', edited: { actor: 'eve', reason: 'leaked' } }] })
    const { changes } = (await askAdmin(edge.adminPort, 'GET', 'changes')).json as {
      changes: { change: string; reason: string; id: string | null }[]
    }
    expect(changes.filter((each) => each.id === id).map((each) => [each.change, each.reason])).toEqual([
      ['key_revoked', 'leaked'],
      ['key_changed', 'no end'],
      ['key_changed', 'ends'],
      ['key_changed', 'moved'],
      ['key_created', TEAM.reason],
    ])
    expect(edge.log.filter(({ event }) => event === 'key_revoked')).toHaveLength(1)
  })

  test('that was issued elsewhere is taken in by its digest, once', async () => {
    const edge = await service()
    const digest = 'OdNBCRuaGBq5GeJvrR9vdcpFlK9NrfqMrpmw2U0rSxk'
    const { status, json } = await create(edge, { ...TEAM, digest })
    expect([status, json.digest, json.key]).toEqual([201, digest, undefined])
    expect((await create(edge, { ...TEAM, digest })).json.error).toMatchObject({ code: 'key_exists' })
  })

  test('that was revoked is never taken in again, however long ago that was', async () => {
    const env = { ...ADMIN_ENV, EDGE_KEYS_FILE: join(await newFolder(), 'keys') }
    const clock = new ManualClock()
    const first = await running({ bundle: BUNDLE, env, clock })
    const { id, digest } = (await create(first)).json
    await askAdmin(first.adminPort, 'DELETE', `keys/${id}?reason=leaked`)
    const refused = { code: 'key_revoked', message: expect.stringContaining(`key ${id} was issued before and is revoked`) }
    expect((await create(first, { ...TEAM, digest })).json.error).toMatchObject(refused)
    await first.stop()
    for (const days of [31, 400]) {
      clock.advance(days * 86_400_000)
      const edge = await running({ bundle: BUNDLE, env, clock })
      expect((await askAdmin(edge.adminPort, 'GET', 'keys')).json.keys).toEqual([])
      const { status, json } = await create(edge, { ...TEAM, digest, expires_at: '90d' })
      expect([status, json.error]).toMatchObject([409, refused])
      expect((await askAdmin(edge.adminPort, 'GET', `keys/${id}`)).json.error).toMatchObject({ code: 'key_revoked' })
      expect((await askAdmin(edge.adminPort, 'DELETE', `keys/${id}?reason=again`)).status).toBe(200)
      await edge.stop()
    }
  })

  test.for<[string, (bytes: Buffer) => Buffer, object]>([
    ['one byte', (bytes) => bytes.subarray(0, -1), { lines: 1 }],
    ['a line', (bytes) => bytes.subarray(0, bytes.lastIndexOf(10, -2) + 1), { lines: 1 }],
    [
      'NULs in place of the last line',
      (bytes) => Buffer.concat([bytes.subarray(0, bytes.lastIndexOf(10, -2) + 1), Buffer.alloc(99)]),
      { lines: 1 },
    ],
    ['half of its first line', (bytes) => bytes.subarray(0, 50), { bytes: 50 }],
    ['everything', () => Buffer.alloc(0), { bytes: 0 }],
  ])('in a file that lost %s starts with what is left, and is a problem until an operator acknowledges it', async ([, cut, lost]) => {
    const EDGE_KEYS_FILE = join(await newFolder(), 'keys')
    const first = await service({ EDGE_KEYS_FILE })
    const { id } = (await create(first)).json
    await askAdmin(first.adminPort, 'DELETE', `keys/${id}?reason=leaked`)
    await first.stop()
    await writeFile(EDGE_KEYS_FILE, cut(await readFile(EDGE_KEYS_FILE)))
    const problems = async (edge: Edge): Promise<string[]> =>
      (await askAdmin(edge.adminPort, 'GET', 'status')).json.problems.map(({ code }: { code: string }) => code)
    for (const isLast of [false, true]) {
      const edge = await service({ EDGE_KEYS_FILE })
      expect(edge.log.filter(({ event }) => event === 'keys_tail_dropped')).toMatchObject([{ path: EDGE_KEYS_FILE, ...lost }])
      expect(await problems(edge)).toEqual(['keys_tail_dropped'])
      await create(edge)
      if (isLast) {
        const body = { reason: 'compared' }
        expect((await askAdmin(edge.adminPort, 'POST', 'keys/acknowledge', { body, actor: 'eve' })).status).toBe(204)
        expect(await problems(edge)).toEqual([])
        expect(edge.log.at(-1)).toMatchObject({ event: 'keys_tail_acknowledged', actor: 'eve', reason: 'compared' })
      }
      await edge.stop()
    }
    const after = await service({ EDGE_KEYS_FILE })
    expect(await problems(after)).toEqual([])
    expect((await askAdmin(after.adminPort, 'GET', 'keys')).json.keys.length).toBeGreaterThanOrEqual(2)
  })

  test('in a file that an earlier build wrote is known, and the file is of today after that', async () => {
    const EDGE_KEYS_FILE = join(await newFolder(), 'keys')
    const [kept, gone] = [sampleKey().key, sampleKey().key]
    const revoked = { ...gone, isRevoked: true, momentMs: gone.momentMs + 1, edit: { actor: 'eve', reason: 'leaked' } }
    const lines = ['{"edge_keys":1}', ...[kept, gone, revoked].map(encodeKey)]
    await writeFile(EDGE_KEYS_FILE, lines.map(lineOf).join(''))
    for (let i = 0; i < 2; i++) {
      const edge = await service({ EDGE_KEYS_FILE })
      expect((await askAdmin(edge.adminPort, 'GET', `keys/${kept.id}`)).json.status).toBe('active')
      const digest = gone.digest.toString('base64url')
      expect((await create(edge, { ...TEAM, digest })).json.error).toMatchObject({ code: 'key_revoked' })
      expect(edge.log.filter(({ event }) => event === 'keys_tail_dropped')).toEqual([])
      await edge.stop()
    }
    expect(await readFile(EDGE_KEYS_FILE, 'utf8')).toContain('{"edge_keys":2,')
  })

  test('is found by its labels, page by page', async () => {
    const edge = await service()
    const made = await Promise.all(
      Array.from({ length: 7 }, (_, i) => create(edge, { labels: { team: i % 2 === 0 ? 'even' : 'odd' }, reason: 'many' })),
    )
    const even = made
      .filter((_, i) => i % 2 === 0)
      .map(({ json }) => json.id as string)
      .sort()
    const found: string[] = []
    let next: string | null = null
    do {
      const { json } = await askAdmin(edge.adminPort, 'GET', `keys?team=even&limit=2${next === null ? '' : `&after=${next}`}`)
      found.push(...json.keys.map(({ id }: { id: string }) => id))
      next = json.next
    } while (next !== null)
    expect(found).toEqual(even)
    expect((await askAdmin(edge.adminPort, 'GET', 'keys?team=even&user=x')).json.keys).toEqual([])
  })

  test('outlives its process with EDGE_KEYS_FILE, and a second process on that file does not start', async () => {
    const EDGE_KEYS_FILE = join(await newFolder(), 'keys')
    const first = await service({ EDGE_KEYS_FILE })
    const { json } = await create(first)
    expect(json.durable).toBe(true)
    await expect(service({ EDGE_KEYS_FILE })).rejects.toThrow('is in use by process')
    await first.stop()
    const second = await service({ EDGE_KEYS_FILE })
    expect((await askAdmin(second.adminPort, 'GET', `keys/${json.id}`)).json).toMatchObject({ id: json.id, labels: TEAM.labels })
  })

  test.for([
    ['keys', '10', 'short'],
    ['text', '1000', '\u674e'.repeat(7000)],
  ] as const)('in a file with more %s than there is room for keeps the service from starting, with a way out', async ([, max, note]) => {
    const EDGE_KEYS_FILE = join(await newFolder(), 'keys')
    await writeKeyFile(
      EDGE_KEYS_FILE,
      Array.from({ length: 300 }, (_, i) => sampleKey({ labels: { note: `${i} ${note}` } }).key),
    )
    await expect(service({ EDGE_KEYS_FILE, EDGE_MAX_KEYS: max })).rejects.toThrow(
      `has more keys, or longer labels and reasons, than EDGE_MAX_KEYS (${max}) allows: raise EDGE_MAX_KEYS`,
    )
    const edge = await service({ EDGE_KEYS_FILE, EDGE_MAX_KEYS: '100000' })
    expect((await askAdmin(edge.adminPort, 'GET', 'keys?limit=1')).json.keys).toHaveLength(1)
  })

  test('is refused on a full disk, and nothing has changed', async (t) => {
    const folder = await newFolder()
    const disk = smallDisk(folder, t)
    const edge = await service({ EDGE_KEYS_FILE: join(folder, 'keys') })
    disk.fill()
    let last = await create(edge)
    // The last block of the file may have room for some more.
    for (let i = 0; i < 40 && last.status === 201; i++) last = await create(edge)
    expect(last).toMatchObject({ status: 503, json: { error: { code: 'store_unavailable' } } })
    expect(last.json.error.message).toContain('nothing was changed, because EDGE_KEYS_FILE cannot be written')
    const count = (await askAdmin(edge.adminPort, 'GET', 'keys')).json.keys.length
    expect((await create(edge)).status).toBe(503)
    expect((await askAdmin(edge.adminPort, 'GET', 'keys')).json.keys).toHaveLength(count)
    expect((await edge.decide({ fields: [['X-K', 'alice']] })).status).toBe(200)
  })

  test('is refused at once while the disk hangs, and nothing changes; one that the disk has not confirmed yet is done later', async () => {
    const folder = await newFolder()
    const edge = await service({ EDGE_KEYS_FILE: join(folder, 'keys') })
    const { id } = (await create(edge)).json
    const resume = stallDisk(folder)
    const waiting = create(edge)
    await until(() => edge.service.waitsForDisk())
    const refused = await create(edge)
    expect(refused).toMatchObject({ status: 503, json: { error: { code: 'store_unavailable' } } })
    expect(refused.json.error.message).toBe(
      'nothing was changed, because the disk with EDGE_KEYS_FILE does not respond; other changes wait for it, and may still be done',
    )
    const revoked = await askAdmin(edge.adminPort, 'DELETE', `keys/${id}?reason=x`)
    expect([revoked.status, revoked.json.error.message]).toEqual([503, refused.json.error.message])
    expect((await askAdmin(edge.adminPort, 'GET', `keys/${id}`)).json.status).toBe('active')
    await resume()
    // It may have been told meanwhile that nobody knows.
    expect([201, 503]).toContain((await waiting).status)
    await until(async () => (await create(edge)).status === 201)
    expect((await askAdmin(edge.adminPort, 'GET', 'keys')).json.keys).toHaveLength(3)
  })

  test('whose labels have no room left is refused, and one with labels that another key has is not', async () => {
    const edge = await service({ EDGE_MAX_KEYS: '1000' })
    const long = (i: number) => Object.fromEntries(Array.from({ length: 32 }, (_, j) => [`label-${j}`, `${i} ${'\u674e'.repeat(240)}`]))
    let refused: AdminResponse | undefined
    let count = 0
    for (; refused === undefined; count += 20) {
      const made = await Promise.all(Array.from({ length: 20 }, (_, i) => create(edge, { labels: long(count + i), reason: 'long' })))
      refused = made.find(({ status }) => status !== 201)
    }
    expect([refused.status, refused.json.error.message]).toEqual([
      400,
      'there is no room for the labels and reasons of so many keys: nothing was changed. Use shorter or fewer different ones, or raise EDGE_MAX_KEYS, which makes room too',
    ])
    // Labels that another key has take no more room.
    expect((await create(edge, { labels: long(0), reason: 'long' })).status).toBe(201)
    expect((await create(edge, { labels: long(count), reason: 'long' })).status).toBe(400)
  })

  test('beyond EDGE_MAX_KEYS is refused', async () => {
    const edge = await service({ EDGE_MAX_KEYS: '2' })
    const made = await Promise.all([create(edge), create(edge), create(edge)])
    expect(made.map(({ status }) => status).sort()).toEqual([201, 201, 400])
    expect(made.find(({ status }) => status === 400)!.json.error.message).toContain('Raise EDGE_MAX_KEYS')
  })
})

describe('a request about keys that cannot be fulfilled', () => {
  const suite = thisSuite()
  let edge: Edge
  beforeAll(async () => {
    edge = await running({ bundle: BUNDLE, env: ADMIN_ENV }, suite)
  })

  test.each<[string, string, object | undefined, number, string]>([
    ['POST', 'keys', { reason: 'x' }, 400, 'labels: missing'],
    ['POST', 'keys', { labels: { after: 'x' }, reason: 'x' }, 400, 'other than "id", "after" and "limit"'],
    ['POST', 'keys', { labels: { a: 'x' } }, 400, 'reason: missing'],
    ['POST', 'keys', { labels: { a: 'x' }, reason: 'x', expires_at: '2020-01-01T00:00:00Z' }, 400, 'is in the past'],
    ['POST', 'keys', { labels: { a: 'x' }, reason: 'x', expires_at: 'soon' }, 400, 'expires_at: expected a time in UTC'],
    ['POST', 'keys', { labels: { a: 'x' }, reason: 'x', expires_at: '0d' }, 400, 'a duration such as 12h or 90d, or null'],
    ['POST', 'keys', { labels: { a: 'x' }, reason: 'x', digest: 'short' }, 400, 'digest: expected the SHA-256'],
    ['POST', 'keys', { labels: { a: 'x' }, reason: 'x', key: 'mine' }, 400, 'unknown fields: "key"'],
    ['PATCH', 'keys/0123456789ab', { reason: 'x' }, 400, 'nothing to change'],
    ['PATCH', 'keys/0123456789ab', { labels: { a: 'x' }, reason: 'x' }, 404, 'there is no key'],
    ['DELETE', 'keys/0123456789ab', undefined, 400, 'reason: missing'],
    ['DELETE', 'keys/0123456789ab?reason=x', undefined, 404, 'there is no key'],
    ['GET', 'keys/0123456789ab', undefined, 404, 'there is no key'],
    ['GET', 'keys/..%2f', undefined, 404, 'an id has twelve hexadecimal digits'],
    ['GET', 'keys?limit=1001', undefined, 400, 'limit: expected a whole number from 1 to 1000'],
    ['GET', 'keys?after=zz', undefined, 400, 'after: expected the id of a key'],
    ['GET', 'keys?a%20b=x', undefined, 400, 'labels: expected a name'],
    ['GET', 'keys?team=a&team=b', undefined, 400, 'team is given more than once'],
  ])('is refused with a sentence: %s %s %j', async (method, path, body, status, sentence) => {
    const { json, ...response } = await askAdmin(edge.adminPort, method, path, { body })
    expect([response.status, json.error.message]).toEqual([status, expect.stringContaining(sentence)])
  })

  test('does not repeat a key that somebody pasted in place of its id', async () => {
    const { key } = (await create(edge)).json
    const { status, json } = await askAdmin(edge.adminPort, 'GET', `keys/${key}`)
    expect(status).toBe(400)
    expect(JSON.stringify(json)).not.toContain(key.slice(5))
  })
})
