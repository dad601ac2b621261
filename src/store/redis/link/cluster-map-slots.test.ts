import { expect, test } from 'vitest'
import { hashSlot } from './cluster-map.ts'

// From `redis-cli cluster keyslot`.
const SLOTS: Readonly<Record<string, number>> = {
  '': 0,
  a: 15495,
  '123456789': 12739,
  'edge:0123456789abcdef': 8434,
  'foo{}{bar}': 8363,
  'foo{{bar}}zap': 4015,
  'foo{bar}{zap}': 5061,
  '{user1000}.following': 3443,
  '{user1000}.followers': 3443,
  '{}edge': 13888,
  'a{b': 13340,
  'a}b{c}': 7365,
  größe: 9425,
  '{größe}x': 9425,
  日本語: 12788,
  'edge:{tag}:x': 8338,
}

test.for(Object.entries(SLOTS))('slot of %j is %i, as Redis says', ([key, slot]) => {
  expect(hashSlot(key)).toBe(slot)
})
