import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { type OverrideEntry, subjectKey, subjectOf } from '../../src/overrides/override.ts'
import { decodeEntry, encodeEntry, MAX_ENTRY_BYTES, OverrideMap } from '../../src/overrides/override-map.ts'
import { anyEntry, entry } from '../support/overrides/entries.ts'
import { anyText } from '../support/random/texts.ts'

const entries = fc.array(entry, { maxLength: 12 })
const wallMs = fc.integer({ min: 0, max: 6 })

describe('override maps', () => {
  test('have the same entries, however often and in whatever order they heard of them', () => {
    fc.assert(
      fc.property(entries, entries, entries, wallMs, (a, b, c, nowMs) => {
        const whole = contentOf(nowMs, a, b, c)
        expect(contentOf(nowMs, c, b, a)).toEqual(whole)
        expect(contentOf(nowMs, a, a, b, a, c, b)).toEqual(whole)
        expect(contentOf(nowMs, entriesIn(nowMs, a, b), c)).toEqual(whole)
        expect(contentOf(nowMs, a, entriesIn(nowMs, c, b))).toEqual(whole)
        expect(contentOf(nowMs, [...a, ...b, ...c].reverse())).toEqual(whole)
      }),
    )
  })

  test('never bring back what was ended, or replaced, before', () => {
    fc.assert(
      fc.property(entries, wallMs, (all, nowMs) => {
        const map = mapOf(nowMs, all)
        for (const { id, subject } of map.list(nowMs)) {
          const known = all.filter((one) => one.forgetMs > nowMs && subjectKey(subjectOf(one)) === subjectKey(subject))
          const latestMs = Math.max(...known.map(({ momentMs }) => momentMs))
          const latest = known.filter(({ momentMs }) => momentMs === latestMs)
          expect(latest.map(({ kind }) => kind)).not.toContain('ended')
          expect(latest.map((one) => (one.kind === 'set' ? one.override.id : ''))).toContain(id)
        }
      }),
    )
  })

  test('announce each change once, with what was there before', () => {
    fc.assert(
      fc.property(fc.array(entries), wallMs, (merges, nowMs) => {
        const announced = new Map<string, OverrideEntry>()
        const map = new OverrideMap((changes) => {
          for (const { before, after } of changes) {
            const key = subjectKey(subjectOf(after))
            expect(announced.get(key)).toBe(before)
            announced.set(key, after)
          }
        })
        for (const some of merges) map.merge(some, nowMs)
        expect(new Set(map.entries())).toEqual(new Set(announced.values()))
      }),
    )
  })
})

describe('an entry as text', () => {
  test('is the same entry when it is read', () => {
    fc.assert(
      fc.property(anyEntry, (one) => {
        const text = encodeEntry(one)
        expect(text).not.toContain('\n')
        expect(decodeEntry(text)).toEqual(text.length > MAX_ENTRY_BYTES ? undefined : one)
      }),
    )
  })

  test('that is damaged or from a newer program is left out', () => {
    fc.assert(fc.property(fc.oneof(anyText, fc.json()), (text) => void expect(decodeEntry(text)).toBeUndefined()))
    fc.assert(
      fc.property(anyEntry, fc.nat(), fc.oneof(anyText, fc.constant('')), (one, at, instead) => {
        const text = encodeEntry(one)
        const cut = at % text.length
        // Whatever is read from it, nothing is thrown, and what is read can be written.
        const read = decodeEntry(text.slice(0, cut) + instead + text.slice(cut + 1))
        if (read !== undefined) expect(decodeEntry(encodeEntry(read))).toEqual(read)
      }),
    )
    fc.assert(
      fc.property(anyEntry, (one) => {
        const members = JSON.parse(encodeEntry(one)) as Record<string, unknown>
        expect(decodeEntry(JSON.stringify({ ...members, v: 2 }))).toBeUndefined()
        for (const name of Object.keys(members)) {
          const { [name]: _without, ...rest } = members
          // One that was never edited has no edit.
          if (name !== 'edit') expect(decodeEntry(JSON.stringify(rest))).toBeUndefined()
          expect(decodeEntry(JSON.stringify({ ...members, [name]: [] }))).toBeUndefined()
        }
      }),
    )
  })

  test('of an earlier version, which has neither edits nor blocks that cut streams, is read', () => {
    const text =
      '{"v":1,"moment":5,"forget":9,"id":"0123456789ab","subject":{"policy":"p","rule":"r"},"change":{"kind":"block"},"since":5,"until":9,"created":4,"actor":"a","reason":"b"}'
    const subject = { policy: 'p', rule: 'r', values: undefined }
    const override = {
      id: '0123456789ab',
      subject,
      change: { kind: 'block' },
      sinceMs: 5,
      untilMs: 9,
      createdMs: 4,
      actor: 'a',
      reason: 'b',
    }
    expect(decodeEntry(text)).toEqual({ kind: 'set', momentMs: 5, forgetMs: 9, override })
    expect(encodeEntry(decodeEntry(text)!)).toBe(text)
  })
})

function mapOf(nowMs: number, ...merges: readonly OverrideEntry[][]): OverrideMap {
  const map = new OverrideMap()
  for (const some of merges) map.merge(some, nowMs)
  return map
}

function entriesIn(nowMs: number, ...merges: readonly OverrideEntry[][]): OverrideEntry[] {
  return [...mapOf(nowMs, ...merges).entries()]
}

function contentOf(nowMs: number, ...merges: readonly OverrideEntry[][]): Set<string> {
  return new Set(entriesIn(nowMs, ...merges).map(encodeEntry))
}
