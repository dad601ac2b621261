import { beforeEach, describe, expect, test } from 'vitest'
import { jwkOf, jwtEntry, keySetText, signedToken, testKey } from '../../test/support/callers/test-issuer.ts'
import { ManualClock } from '../../test/support/service/manual-clock.ts'
import type { Callers } from '../policy/schema/callers.ts'
import type { CallerReader, CallerVerdict } from '../request/caller.ts'
import { PlainRequestView } from '../request/view.ts'
import { credentialReaders } from './credential-reader.ts'
import { KeySet, type PublishedKeys, readKeySet } from './jwt/key-set.ts'
import { PROXY_WAIT_MS, WorkerKeySets } from './key-sets/worker-key-sets.ts'
import { type IssuedKey, keyDigest, keyIdOf, newKeyText } from './keys/issued-key.ts'
import { IssuedKeys } from './keys/issued-keys.ts'
import { newKeyMemory } from './keys/key-memory.ts'
import { KeyTable } from './keys/key-table.ts'

const KEY = testKey('ed25519', 'a')
const OTHER_KEY = testKey('ed25519', 'b')
const ENTRY = jwtEntry({ labels: { team: { claim: 'team' } } })
const KEYS = { from: ['bearer', 'header:X-Team-Key', 'header:x-other-key'] }
const NO_CREDENTIAL_BUT_KEY = { problem: 'no_credential', keyFields: ['authorization'] }
const SOURCE = `file:${ENTRY.jwks_file}`

let clock: ManualClock
let table: KeyTable
let keySets: WorkerKeySets<KeySet>
let newReader: (callers: Callers) => CallerReader
let asked: number
let addresses: number

beforeEach(() => {
  clock = new ManualClock()
  const memory = newKeyMemory(100)
  table = new KeyTable(memory)
  table.noteLoaded()
  asked = 0
  addresses = 0
  keySets = new WorkerKeySets({
    open: (keys) => new KeySet(keys),
    ask: () => void asked++,
    nowMs: () => clock.nowMs(),
    waitMs: PROXY_WAIT_MS,
  })
  newReader = credentialReaders({ keySets, issuedKeys: new IssuedKeys(memory), clock })
  publish(KEY)
})

describe('a credential', () => {
  test('that is a good token names its caller, and is looked up without asking for the address once it is remembered', () => {
    const reader = newReader({ jwt: [ENTRY] })
    const caller = { id: 'idp:alice', labels: new Map([['team', 'blue']]) }
    expect(read(reader, bearer(token()))).toMatchObject(caller)
    expect(addresses).toBe(1)
    expect(read(reader, bearer(token()))).toMatchObject(caller)
    expect(addresses).toBe(1)
  })

  test('may be in any place that the bundle names, and in several if it is the same', () => {
    const reader = newReader({ jwt: [ENTRY], keys: KEYS })
    const { text, id } = issue()
    const verdict = (keyFields: string[]) => ({ id: `key:${id}`, labels: new Map([['team', 'red']]), claims: undefined, keyFields })
    expect(read(reader, bearer(text))).toEqual(verdict(['authorization']))
    expect(read(reader, { 'x-team-key': text })).toEqual(verdict(['x-team-key']))
    expect(read(reader, { ...bearer(text), 'x-team-key': text, 'X-Other-Key': text })).toEqual(
      verdict(['authorization', 'x-team-key', 'x-other-key']),
    )
    expect(addresses).toBe(0)
  })

  test.each<[string, (key: string) => Record<string, string | string[]>, string[]]>([
    ['two keys', (key) => ({ ...bearer(key), 'x-team-key': newKeyText() }), ['authorization', 'x-team-key']],
    ['a key and a token', (key) => ({ ...bearer(token()), 'x-team-key': key }), ['x-team-key']],
    ['a key and something else', (key) => ({ 'x-other-key': 'sk-1', 'x-team-key': key }), ['x-team-key']],
    ['a repeated field', (key) => ({ 'x-team-key': [key, key] }), ['x-team-key']],
    ['repeated tokens', () => ({ authorization: [`Bearer ${token()}`, `Bearer ${token()}`] }), ['authorization']],
    ['two words', (key) => ({ authorization: `Bearer ${token()} ${key}` }), ['authorization']],
  ])('beside another is refused, and no field with a key goes on: %s', (_, fields, keyFields) => {
    const reader = newReader({ jwt: [ENTRY], keys: KEYS })
    expect(read(reader, fields(issue().text))).toEqual({ problem: 'two_credentials', keyFields })
  })

  test.each<[string, Callers, (key: string) => Record<string, string>, object]>([
    ['nothing at all', { jwt: [ENTRY], keys: KEYS }, () => ({ 'x-team-key': '', authorization: 'Bearer ' }), { problem: 'no_credential' }],
    ['another scheme', { jwt: [ENTRY] }, () => ({ authorization: 'Basic eDp5' }), { problem: 'no_credential' }],
    ['a key where none are issued', { jwt: [ENTRY] }, (key) => bearer(key), { problem: 'malformed', keyFields: ['authorization'] }],
    ['a token where none are verified', { keys: KEYS }, () => bearer(token()), { problem: 'malformed' }],
    ['a token in the place of a key', { jwt: [ENTRY], keys: KEYS }, () => ({ 'x-team-key': token() }), { problem: 'malformed' }],
    [
      'a key as a bearer token where only fields have keys',
      { jwt: [ENTRY], keys: { from: ['header:x-team-key'] } },
      (key) => bearer(key),
      { problem: 'malformed', keyFields: ['authorization'] },
    ],
    [
      'a bearer token where only fields are read',
      { keys: { from: ['header:x-team-key'] } },
      () => bearer('sk-of-the-backend'),
      { problem: 'no_credential' },
    ],
    ['half a key', { keys: KEYS }, (key) => bearer(key.slice(0, -1)), { problem: 'malformed', keyFields: ['authorization'] }],
    ['a key in quotes', { jwt: [ENTRY], keys: KEYS }, (key) => bearer(`"${key}"`), { problem: 'malformed', keyFields: ['authorization'] }],
    ['a key by another scheme', { keys: KEYS }, (key) => ({ authorization: `Token ${key}` }), NO_CREDENTIAL_BUT_KEY],
    ['a key as a password', { jwt: [ENTRY], keys: KEYS }, (key) => ({ authorization: `Basic ${btoa(`x:${key}`)}` }), NO_CREDENTIAL_BUT_KEY],
    ['a name like a key', { keys: KEYS }, () => ({ authorization: `Basic ${btoa('edge_service:x')}` }), { problem: 'no_credential' }],
    [
      'a credential of another kind with a name like a key',
      { jwt: [ENTRY], keys: KEYS },
      () => ({ authorization: 'Digest username="edge_service", realm="acme_knowledge_base"' }),
      { problem: 'no_credential' },
    ],
    ['two keys in a line', { keys: KEYS }, (key) => ({ 'x-team-key': `a ${key}` }), { problem: 'malformed', keyFields: ['x-team-key'] }],
    ['a key that was never issued', { keys: KEYS }, () => bearer(newKeyText()), { problem: 'unknown_key', keyFields: ['authorization'] }],
  ])('that is %s is judged so', (_, callers, fields, verdict) => {
    expect(read(newReader(callers), fields(issue().text))).toEqual(verdict)
  })

  test('that is a revoked key is said to be one, and does not go on', () => {
    const { text } = issue({ isRevoked: true })
    expect(read(newReader({ keys: KEYS }), bearer(text))).toEqual({ problem: 'revoked', keyFields: ['authorization'] })
  })
})

describe('a token whose key is not here', () => {
  test('waits for the set, and is verified then', async () => {
    const reader = newReader({ jwt: [ENTRY] })
    clock.advance(1)
    const verdict = read(reader, bearer(token({}, OTHER_KEY)))
    expect(verdict).toBeInstanceOf(Promise)
    expect([asked, addresses]).toEqual([1, 1])
    publish(KEY, OTHER_KEY)
    expect(await verdict).toMatchObject({ id: 'idp:alice' })
    expect(addresses).toBe(1)
  })

  test('is unknown if the set does not have it then', async () => {
    const verdict = read(newReader({ jwt: [ENTRY] }), bearer(token({}, OTHER_KEY)))
    clock.advance(1)
    publish(KEY)
    publish(KEY)
    expect(await verdict).toEqual({ problem: 'unknown_key' })
  })

  test('is unknown at once if the name of the key is too long to ask for', () => {
    const reader = newReader({ jwt: [ENTRY] })
    expect(read(reader, bearer(token({}, { ...OTHER_KEY, kid: 'k'.repeat(257) })))).toEqual({ problem: 'unknown_key' })
    expect(asked).toBe(0)
  })

  test('cannot be judged where the set was dropped', () => {
    const reader = newReader({ jwt: [ENTRY] })
    keySets.note({ changed: [], gone: [SOURCE] })
    expect(read(reader, bearer(token()))).toEqual({ problem: 'keys_unavailable' })
  })
})

describe('a token that is remembered', () => {
  test('is not known to a plan whose entry of that name says something else', () => {
    expect(read(newReader({ jwt: [ENTRY] }), bearer(token()))).toMatchObject({ id: 'idp:alice' })
    const others: [Partial<typeof ENTRY>, object][] = [
      [{ issuer: 'https://other.example/' }, { problem: 'issuer' }],
      [{ audiences: ['web'] }, { problem: 'audience' }],
      [{ algorithms: ['RS256'] }, { problem: 'algorithm' }],
      [{ jwks_file: 'other.json' }, { problem: 'keys_unavailable' }],
      [{ labels: { team: { claim: 'sub' } } }, { labels: new Map([['team', 'alice']]) }],
    ]
    for (const [change, verdict] of others) {
      expect(read(newReader({ jwt: [{ ...ENTRY, ...change }] }), bearer(token()))).toMatchObject(verdict)
    }
  })

  test('is forgotten with its key, and holds while other keys come', async () => {
    const reader = newReader({ jwt: [ENTRY] })
    expect(read(reader, bearer(token()))).toMatchObject({ id: 'idp:alice' })
    publish(KEY, OTHER_KEY)
    expect(read(reader, bearer(token()))).toMatchObject({ id: 'idp:alice' })
    expect(addresses).toBe(1)
    publish({ ...OTHER_KEY, kid: KEY.kid })
    expect(read(reader, bearer(token()))).toEqual({ problem: 'signature' })
  })
})

test('claims that are nested thousands deep hurt nobody', () => {
  const deep = `${'['.repeat(5000)}${']'.repeat(5000)}`
  const claims = JSON.stringify(claimsOf({})).replace('}', `,"deep":${deep}}`)
  expect(read(newReader({ jwt: [ENTRY] }), bearer(signedToken('EdDSA', KEY, claims)))).toMatchObject({ id: 'idp:alice' })
})

function read(reader: CallerReader, headers: Record<string, string | string[]>): CallerVerdict | Promise<CallerVerdict> {
  return reader.read(new PlainRequestView({ method: 'GET', uri: '/', headers }), () => {
    addresses++
    return '192.0.2.1'
  })
}

function bearer(credential: string): { authorization: string } {
  return { authorization: `Bearer ${credential}` }
}

function claimsOf(more: object): object {
  return { iss: ENTRY.issuer, aud: 'api', sub: 'alice', team: 'blue', exp: clock.wallMs() / 1000 + 3600, ...more }
}

function token(more: object = {}, key = KEY): string {
  return signedToken('EdDSA', key, claimsOf(more))
}

function publish(...keys: (typeof KEY)[]): void {
  const published = readKeySet(keySetText(...keys.map((key) => jwkOf(key)))) as PublishedKeys
  const readAtMs = clock.nowMs()
  keySets.note({ changed: [{ source: SOURCE, keys: published, readAtMs, isFailing: false, askableAtMs: 0 }], gone: [] })
}

function issue(more: Partial<IssuedKey> = {}): { text: string; id: string } {
  const text = newKeyText()
  const digest = keyDigest(text)
  const id = keyIdOf(digest)
  const by = { actor: 'ada', reason: 'a test' }
  const times = { createdMs: 0, momentMs: clock.wallMs(), expiresMs: undefined }
  table.put({ id, digest, labels: { team: 'red' }, ...times, ...by, edit: undefined, isRevoked: false, ...more })
  return { text, id }
}
