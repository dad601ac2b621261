import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { keyTable, NOON_MS, sampleKey } from '../../../test/support/keys/sample-keys.ts'
import { wellFormedText } from '../../../test/support/random/any-text.ts'
import { sized } from '../../../test/support/run/property-runs.ts'
import { newGate, runThread } from '../../../test/support/threads/threads.ts'
import { until } from '../../../test/support/until.ts'
import { isVerified } from '../../request/caller.ts'
import { type IssuedKey, KEPT_MS, keyStatus, newKeyText } from './issued-key.ts'
import { IssuedKeys } from './issued-keys.ts'

const TEXTS = Array.from({ length: 40 }, () => newKeyText())

const step = fc.record({
  what: fc.constantFrom('put', 'put', 'put', 'revoke', 'forget', 'discard', 'later'),
  key: fc.nat(TEXTS.length - 1),
  labels: fc.dictionary(fc.constantFrom('a', 'b', 'c'), wellFormedText({ maxLength: 300 }), { minKeys: 1 }),
  expiresMs: fc.option(fc.integer({ min: 1, max: 5 }), { nil: undefined }),
  reason: fc.constantFrom('short', 'another', 'long '.repeat(50)),
})

test('any changes leave the table, and what workers find in it, as they leave a plain map', () => {
  fc.assert(
    fc.property(fc.array(step, { maxLength: 200 }), (steps) => {
      const { memory, table } = keyTable(30)
      const keys = new IssuedKeys(memory)
      const model = new Map<string, IssuedKey>()
      let sum = 0
      table.put(sampleKey({ momentMs: NOON_MS + 1000 }, TEXTS[0]).key)
      model.set(sampleKey({}, TEXTS[0]).key.id, sampleKey({ momentMs: NOON_MS + 1000 }, TEXTS[0]).key)
      const watching = table.watch((_id, momentMs, sign) => {
        sum += sign * (momentMs - NOON_MS)
      })
      for (const _ of watching);
      let wallMs = NOON_MS
      for (const [i, { what, key: index, labels, expiresMs, reason }] of steps.entries()) {
        const { key } = sampleKey({ labels, reason, momentMs: NOON_MS + i }, TEXTS[index])
        const next = {
          ...key,
          expiresMs: expiresMs && wallMs + expiresMs * KEPT_MS,
          edit: model.has(key.id) ? { actor: 'eve', reason } : undefined,
        }
        const former = model.get(key.id)
        if (what === 'put') {
          const isRoom = former !== undefined || model.size < 30
          expect(table.put(next)).toBe(isRoom)
          if (isRoom) model.set(key.id, next)
        } else if (what === 'revoke' && former !== undefined) {
          const revoked = { ...former, isRevoked: true, momentMs: wallMs }
          expect(table.put(revoked)).toBe(true)
          model.set(key.id, revoked)
        } else if (what === 'forget') {
          table.forget(key.id)
          model.delete(key.id)
        } else if (what === 'discard') table.discard(table.prepare(next)!)
        else if (what === 'later') {
          wallMs += KEPT_MS
          const over = [...model.values()].filter(
            (each) => (each.isRevoked ? each.momentMs : (each.expiresMs ?? Infinity)) + KEPT_MS <= wallMs,
          )
          for (const _ of table.forgetOver(wallMs));
          for (const { id } of over) model.delete(id)
        }
      }
      expect(table.size).toBe(model.size)
      expect(sum).toBe([...model.values()].reduce((total, { momentMs }) => total + momentMs - NOON_MS, 0))
      expect([...table.keys()].sort(byId)).toEqual([...model.values()].sort(byId))
      for (const text of TEXTS) {
        const wanted = model.get(sampleKey({}, text).key.id)
        expect(table.get(sampleKey({}, text).key.id)).toEqual(wanted)
        const found = keys.find(text, () => undefined, 0, wallMs)
        const status = wanted && keyStatus(wanted, wallMs)
        if (status === 'active') expect(isVerified(found) && Object.fromEntries(found.labels)).toEqual(wanted!.labels)
        else if (status === undefined) expect(['unknown_key', 'busy']).toContain((found as { problem: string }).problem)
        else expect(found).toEqual({ problem: status })
      }
    }),
  )
})

test('pages of any size have every key with the labels once, by rising ids, wherever these lie', () => {
  fc.assert(
    fc.property(
      fc.array(fc.record({ team: fc.nat(2), start: fc.constantFrom('', '0000', '00000000', 'ffff', 'ffffffff') }), { maxLength: 60 }),
      fc.integer({ min: 0, max: 100 }),
      fc.integer({ min: 1, max: 7 }),
      fc.integer({ min: 1, max: 20 }),
      (wanted, reserved, limit, atMost) => {
        const { table } = keyTable(100)
        const issued = wanted.map(({ team, start }, i) => {
          const { key } = sampleKey({ labels: { team: `t${team}`, note: '","team":"t1' } }, TEXTS[i % TEXTS.length])
          return { ...key, id: start + key.id.slice(start.length) }
        })
        for (const [i, key] of issued.entries()) {
          if (i === 20) table.reserve(reserved)
          table.put(key)
        }
        const found: string[] = []
        let after: string | undefined
        do {
          const { keys, next } = table.page({ team: 't1' }, after, limit, atMost)
          expect(keys.length).toBeLessThanOrEqual(limit)
          found.push(...keys.map(({ id }) => id))
          after = next
        } while (after !== undefined)
        const last = new Map(issued.map((key) => [key.id, key]))
        expect(found).toEqual(
          [...last.values()]
            .filter(({ labels }) => labels['team'] === 't1')
            .map(({ id }) => id)
            .sort(),
        )
      },
    ),
  )
})

test('texts that are gone make room for others, however often labels change', () => {
  const { table } = keyTable(10)
  const { key } = sampleKey()
  for (let i = 0; i < 3000; i++) {
    const labels = { note: `${i}`.padEnd(256, String(i % 7)), more: 'x'.repeat(i % 200) }
    expect(table.put({ ...key, labels, reason: `reason ${i}`.repeat(90), momentMs: i })).toBe(true)
  }
  expect(table.get(key.id)!.labels['note']).toContain('2999')
})

test('a key can be revoked when there is no room for any other text', () => {
  const { table } = keyTable(10_000)
  const { key } = sampleKey()
  table.put(key)
  for (const length of [16_000, 1000, 100, 1]) {
    for (let i = 0; table.put(sampleKey({ labels: { note: `${i}`.padEnd(length, '-') } }).key); i++);
  }
  expect(table.size).toBeLessThan(10_000)
  const edit = { actor: 'eve', reason: 'a reason that nobody else gave' }
  expect(table.put({ ...key, edit, momentMs: NOON_MS + 1 })).toBe(false)
  expect(table.put({ ...key, edit, momentMs: NOON_MS + 1, isRevoked: true })).toBe(true)
  expect(table.get(key.id)).toEqual({ ...key, edit: undefined, momentMs: NOON_MS + 1, isRevoked: true })
})

describe('while the main thread changes, forgets and issues keys', () => {
  test('a worker always finds a whole one', async () => {
    const { memory, table } = keyTable(2000)
    const { text, key } = sampleKey({ labels: { one: '0', two: '0' } })
    table.put(key)
    const stop = new Int32Array(new SharedArrayBuffer(4))
    const gate = newGate(2)
    const finding = runThread('finding-thread', { memory, text, gate, stop, wallMs: NOON_MS })
    await until(() => Atomics.load(gate.words, 0) === 1)
    Atomics.add(gate.words, 0, 1)
    Atomics.notify(gate.words, 0)
    const others = Array.from({ length: 1500 }, () => sampleKey().key)
    for (let round = 1; round <= sized(40, 300); round++) {
      table.put({ ...key, labels: { one: String(round), two: String(round) }, momentMs: NOON_MS + round })
      for (const other of others.slice(0, 5 * round)) table.put({ ...other, labels: { one: 'other', two: `other ${round % 9}` } })
      if (round % 10 === 0) for (const other of others) table.forget(other.id)
    }
    Atomics.store(stop, 0, 1)
    const { finds, wrong } = (await finding) as { finds: number; wrong: string[] }
    expect(wrong).toEqual([])
    expect(finds).toBeGreaterThan(0)
  })
})

function byId(a: IssuedKey, b: IssuedKey): number {
  return a.id < b.id ? -1 : 1
}
