import { beforeEach, expect, test } from 'vitest'
import { KeySet } from './key-set.ts'
import { type RememberedToken, rememberedBytes, TokenMemory } from './token-memory.ts'

const NOW_S = 1_800_000_000
let memory: TokenMemory

beforeEach(() => {
  memory = new TokenMemory()
})

function token(validity: { fromS?: number; untilS?: number } = {}): RememberedToken {
  return {
    caller: { id: 'idp:alice', labels: new Map(), claims: {} },
    entryName: 'idp',
    entryIdentity: '{}',
    kid: undefined,
    algorithm: 'RS256',
    fingerprint: '',
    keySet: new KeySet({ version: '', usable: [], unused: [], kids: [] }),
    fromS: Number.NEGATIVE_INFINITY,
    untilS: NOW_S + 3600,
    ...validity,
  }
}

test('a token is remembered for five minutes', () => {
  const alice = token()
  memory.add('a', alice, 1000, NOW_S)
  expect([memory.find('a', NOW_S), memory.find('b', NOW_S), memory.find('a', NOW_S + 299)]).toEqual([alice, undefined, alice])
  expect([memory.find('a', NOW_S + 300), memory.size]).toEqual([undefined, 0])
})

test('a token is remembered until it expires', () => {
  memory.add('a', token({ untilS: NOW_S + 9.5 }), 1000, NOW_S)
  expect(memory.find('a', NOW_S + 9)).toBeDefined()
  expect(memory.find('a', NOW_S + 10)).toBeUndefined()
})

test('a clock that is set back prolongs nothing', () => {
  memory.add('a', token(), 1000, NOW_S)
  expect([memory.find('a', NOW_S - 1), memory.find('a', NOW_S)]).toEqual([undefined, undefined])
  memory.add('a', token({ fromS: NOW_S + 10 }), 1000, NOW_S)
  expect(memory.find('a', NOW_S + 9)).toBeUndefined()
})

test('the oldest are forgotten beyond 16,384 tokens', () => {
  for (let i = 0; i < 16_385; i++) memory.add(String(i), token(), 10, NOW_S)
  expect([memory.size, memory.find('0', NOW_S), memory.find('1', NOW_S) === undefined]).toEqual([16_384, undefined, false])
})

test('the oldest are forgotten beyond 32 MiB, and a token that comes again counts once', () => {
  for (let i = 0; i < 1024; i++) memory.add(String(i), token(), 32_768, NOW_S)
  for (let i = 0; i < 100; i++) memory.add('1023', token(), 32_768, NOW_S)
  expect(memory.size).toBe(1024)
  memory.add('more', token(), 1, NOW_S)
  expect([memory.size, memory.find('0', NOW_S), memory.find('1', NOW_S) === undefined]).toEqual([1024, undefined, false])
})

test('a token is found by all of its text, whether it was used lately or not', () => {
  const end = 'e'.repeat(24)
  const [alice, bob] = [token(), token()]
  memory.add(`a${end}`, alice, 1000, NOW_S)
  memory.add(`b${end}`, bob, 1000, NOW_S)
  for (let i = 0; i < 3; i++) {
    expect([memory.find(`a${end}`, NOW_S), memory.find(`b${end}`, NOW_S), memory.find(end, NOW_S)]).toEqual([alice, bob, undefined])
    expect(memory.find(`\u0161${end}`, NOW_S)).toBeUndefined()
  }
})

test('a token that was used lately is forgotten like any other', () => {
  memory.add('a', token(), 1000, NOW_S)
  for (let i = 0; i < 2000; i++) memory.add(`b${i}`, token(), 10, NOW_S)
  for (let i = 0; i < 2000; i++) expect([memory.find('a', NOW_S), memory.find(`b${i}`, NOW_S)]).not.toContain(undefined)
  for (let i = 0; i < 16_384; i++) memory.add(String(i), token(), 10, NOW_S)
  expect([memory.find('a', NOW_S), memory.find('b1999', NOW_S)]).toEqual([undefined, undefined])
  const again = token()
  memory.add('0', again, 10, NOW_S)
  expect(memory.find('0', NOW_S)).toBe(again)
  expect(memory.find('0', NOW_S + 300)).toBeUndefined()
})

test('claims that are many small values count for more than their text', () => {
  const many = JSON.stringify({ a: Array(1000).fill({}) })
  expect(rememberedBytes(many)).toBeGreaterThan(rememberedBytes(JSON.stringify({ a: 'x'.repeat(many.length - 8) })) * 5)
})
