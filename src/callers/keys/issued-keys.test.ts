import { describe, expect, test } from 'vitest'
import { keyTable, NOON_MS, sampleKey } from '../../../test/support/keys/sample-keys.ts'
import { sized } from '../../../test/support/run/property-runs.ts'
import { labelName } from '../../policy/schema/callers.ts'
import { isVerified } from '../../request/caller.ts'
import { newKeyText } from './issued-key.ts'
import { IssuedKeys, MAX_GUESSES } from './issued-keys.ts'
import { readKeyLabels } from './key-labels.ts'
import { newKeyMemory } from './key-memory.ts'

const ADDRESS = (): string => '192.0.2.1'

describe('a credential', () => {
  test('that was issued is a caller with its labels, and an identity of its own', () => {
    const { keys, put } = workerOf()
    const { text, key } = put({ labels: { team: 'search', user: 'ada' } })
    expect(keys.find(text, ADDRESS, 0, NOON_MS)).toEqual({
      id: `key:${key.id}`,
      labels: new Map([
        ['team', 'search'],
        ['user', 'ada'],
      ]),
      claims: undefined,
    })
  })

  test('that is revoked or has expired is refused for that reason', () => {
    const { keys, put } = workerOf()
    const revoked = put({ isRevoked: true })
    const expiring = put({ expiresMs: NOON_MS })
    expect(keys.find(revoked.text, ADDRESS, 0, NOON_MS)).toEqual({ problem: 'revoked' })
    expect(keys.find(expiring.text, ADDRESS, 0, NOON_MS)).toEqual({ problem: 'expired' })
    expect(isVerified(keys.find(expiring.text, ADDRESS, 0, NOON_MS - 1))).toBe(true)
  })

  test.each([
    ['empty', () => ''],
    ['shorter', (text: string) => text.slice(0, -1)],
    ['longer', (text: string) => `${text}A`],
    ['with another prefix', (text: string) => text.replace('edge_', 'Edge_')],
    ['with a character that is none of base64url', (text: string) => `${text.slice(0, -1)}+`],
    ['with a line end', (text: string) => `${text.slice(0, -1)}\n`],
  ])('that is %s is malformed, and no guess', (_, respelled) => {
    const { keys, put } = workerOf()
    const { text } = put()
    for (let i = 0; i <= MAX_GUESSES; i++) expect(keys.find(respelled(text), ADDRESS, 0, NOON_MS)).toEqual({ problem: 'malformed' })
    expect(keys.find(newKeyText(), ADDRESS, 0, NOON_MS)).toEqual({ problem: 'unknown_key' })
  })

  test('that differs in the two bits that its last character does not need is another one', () => {
    const { keys, put } = workerOf()
    const { text } = put({}, `edge_${'A'.repeat(43)}`)
    expect(isVerified(keys.find(text, ADDRESS, 0, NOON_MS))).toBe(true)
    expect(keys.find(`${text.slice(0, -1)}B`, ADDRESS, 0, NOON_MS)).toEqual({ problem: 'unknown_key' })
  })

  test('is of unknown worth until the keys are loaded', () => {
    const keys = new IssuedKeys(newKeyMemory(1))
    expect(keys.isLoaded).toBe(false)
    expect(keys.find(newKeyText(), ADDRESS, 0, NOON_MS)).toEqual({ problem: 'keys_unavailable' })
  })
})

describe('guesses', () => {
  test('beyond some in a minute are busy for their address alone, and never for a known key', () => {
    const { keys, put } = workerOf()
    const { text } = put()
    const guess = (address: () => string | undefined, nowMs = 0) => keys.find(newKeyText(), address, nowMs, NOON_MS)
    for (let i = 0; i < MAX_GUESSES; i++) expect(guess(ADDRESS)).toEqual({ problem: 'unknown_key' })
    expect(guess(ADDRESS)).toEqual({ problem: 'busy' })
    expect(isVerified(keys.find(text, ADDRESS, 0, NOON_MS))).toBe(true)
    expect(guess(() => '192.0.2.2')).toEqual({ problem: 'unknown_key' })
    expect(guess(() => undefined)).toEqual({ problem: 'unknown_key' })
    expect(guess(ADDRESS, 60_000)).toEqual({ problem: 'unknown_key' })
  })

  test('are those of a whole IPv6 network', () => {
    const { keys } = workerOf()
    for (let i = 0; i < MAX_GUESSES; i++) keys.find(newKeyText(), () => `2001:db8::${i.toString(16)}`, 0, NOON_MS)
    expect(keys.find(newKeyText(), () => '2001:db8::ffff', 0, NOON_MS)).toEqual({ problem: 'busy' })
  })

  test('from a hundred addresses make none of them forgotten, and refuse no known key', () => {
    const { keys, put } = workerOf()
    const { text } = put()
    const addresses = Array.from({ length: 100 }, (_, i) => `198.51.${i >> 8}.${i & 255}`)
    for (const address of addresses) for (let i = 0; i <= MAX_GUESSES; i++) keys.find(newKeyText(), () => address, 0, NOON_MS)
    for (const address of addresses) {
      expect(keys.find(newKeyText(), () => address, 0, NOON_MS)).toEqual({ problem: 'busy' })
      expect(isVerified(keys.find(text, () => address, 0, NOON_MS))).toBe(true)
    }
  })
})

test('many label sets are decoded one after the other, and again', () => {
  // More than are kept decoded.
  const count = sized(5000, 10_000)
  const { keys, put } = workerOf(count)
  const issued = Array.from({ length: count }, (_, i) => put({ labels: { user: `user-${i}` } }).text)
  for (let round = 0; round < 2; round++) {
    for (const [i, text] of issued.entries()) {
      const caller = keys.find(text, ADDRESS, 0, NOON_MS)
      if (!isVerified(caller) || caller.labels.get('user') !== `user-${i}`) throw new Error(`key ${i} is another one`)
    }
  }
})

describe('labels', () => {
  test.each(['team', 'a.b-c_D9', 'x'.repeat(64), 'id', 'after', 'limit', '', 'a b', 'x'.repeat(65), 'é', 'ids', '__proto__'])(
    'have the names that bundles may use: %j',
    (name) => {
      const isName = typeof readKeyLabels(Object.fromEntries([[name, 'x']])) === 'object'
      expect(isName).toBe(labelName.safeParse(name).success && name !== '__proto__')
    },
  )

  test.each<[string, unknown]>([
    ['missing', undefined],
    ['expected an object', ['team']],
    ['expected an object', 'team'],
    ['at least one', {}],
    ['at most 32, got 33', Object.fromEntries(Array.from({ length: 33 }, (_, i) => [`l${i}`, 'x']))],
    ['labels.a: expected a text, got 1', { a: 1 }],
    ['labels.a: expected a text, got an empty one', { a: '' }],
    ['labels.a: expected at most 256 characters, got 257', { a: 'x'.repeat(257) }],
    ['labels.a: expected printable characters only', { a: 'x\ny' }],
    ['labels.a: expected printable characters only', { a: '\u202e' }],
    ['labels.a: expected printable characters only', { a: '\ud800' }],
    ['labels.a: expected printable characters only', { a: 'x\u3164' }],
    ['labels.a: expected printable characters only', { a: '\ue000' }],
    ['labels.a: expected printable characters only', { a: 'x\ufe0f' }],
    ['labels.a: expected printable characters only', { a: '\u2800' }],
    ['labels.a: expected printable characters only', { a: 'x\u00a0y' }],
  ])('that cannot be used are refused with a sentence: %s', (sentence, labels) => {
    expect(readKeyLabels(labels)).toContain(sentence)
  })

  test('are equal in whatever order they are given', () => {
    const { keys, put } = workerOf()
    const labelsOf = (text: string) => {
      const caller = keys.find(text, ADDRESS, 0, NOON_MS)
      return isVerified(caller) ? caller.labels : undefined
    }
    const [one, other] = [
      { b: '1', a: '2' },
      { a: '2', b: '1' },
    ].map((labels) => readKeyLabels(labels) as Record<string, string>)
    expect(labelsOf(put({ labels: one! }).text)).toBe(labelsOf(put({ labels: other! }).text))
  })
})

function workerOf(maxKeys = 100) {
  const { memory, table } = keyTable(maxKeys)
  const put = (...args: Parameters<typeof sampleKey>) => {
    const sample = sampleKey(...args)
    expect(table.put(sample.key)).toBe(true)
    return sample
  }
  return { keys: new IssuedKeys(memory), put }
}
