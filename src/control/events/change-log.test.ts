import { expect, test } from 'vitest'
import type { ChangeJson } from '../../admin/api/instance-types.ts'
import type { Override } from '../../overrides/override.ts'
import { ChangeLog } from './change-log.ts'

const START_MS = Date.UTC(2026, 0, 15, 12)

function changesOf(log: ChangeLog, sinceMs?: number, limit = 1000): ChangeJson[] {
  return log.list(sinceMs, limit).changes.map((text) => JSON.parse(text) as ChangeJson)
}

function override(id: string, minutes: number): Override {
  const createdMs = START_MS + minutes * 60_000
  const subject = { policy: 'api', rule: 'per-key', values: { 'header:x-k': 'alice' } }
  const times = { createdMs, sinceMs: createdMs, untilMs: createdMs + 3_600_000 }
  return { id, subject, change: { kind: 'multiply', factor: 3 }, ...times, actor: 'ada', reason: 'ticket' }
}

function reset(reason: string, value = 'alice') {
  return { actor: 'ada', reason, policy: 'api', rule: 'per-key', values: { 'header:x-k': value }, detail: undefined }
}

test('changes are listed by their time, the newest first, whenever they became known', () => {
  const log = new ChangeLog(START_MS)
  log.noteReset(reset('second'), START_MS + 2 * 60_000)
  log.noteOverride({ kind: 'set', override: override('first', 1), replaced: undefined })
  log.noteOverride({ kind: 'set', override: override('third', 3), replaced: undefined })
  expect(changesOf(log).map(({ id, reason }) => id ?? reason)).toEqual(['third', 'second', 'first'])
  expect(changesOf(log, START_MS + 2 * 60_000)).toHaveLength(2)
  expect(log.list(undefined, 2)).toMatchObject({ isComplete: false, changes: { length: 2 } })
})

test('changes of one moment are listed the last one first', () => {
  const log = new ChangeLog(START_MS)
  for (const reason of ['a', 'b', 'c']) log.noteReset(reset(reason), START_MS)
  expect(changesOf(log).map(({ reason }) => reason)).toEqual(['c', 'b', 'a'])
})

test('an override from before the start is listed, though the list covers less', () => {
  const log = new ChangeLog(START_MS)
  log.noteOverride({ kind: 'set', override: override('old', -10), replaced: undefined })
  expect(log.list(undefined, 10)).toMatchObject({ sinceMs: START_MS, isComplete: true, changes: { length: 1 } })
  expect(log.list(START_MS, 10).changes).toHaveLength(0)
})

test('memory is bounded by number and by size, and the list says what is missing', () => {
  const log = new ChangeLog(START_MS)
  for (let i = 0; i < 600; i++) log.noteReset(reset(`${i}`), START_MS + i)
  expect(changesOf(log)).toHaveLength(500)
  expect(log.list(undefined, 1000).isComplete).toBe(false)
  expect(log.list(START_MS + 100, 1000)).toMatchObject({ sinceMs: START_MS + 100, isComplete: true, changes: { length: 500 } })
  const long = 'é'.repeat(60_000)
  const values = Object.fromEntries(Array.from({ length: 100 }, (_, key) => [`header:x-${key}`, long]))
  for (let i = 0; i < 50; i++) log.noteReset({ ...reset('x'.repeat(1000)), values }, START_MS + 1000 + i)
  const { changes } = log.list(undefined, 1000)
  expect(changes.reduce((sum, text) => sum + text.length, 0)).toBeLessThanOrEqual(512 * 1024)
  expect(changes.length).toBeGreaterThan(5)
  expect(changesOf(log)[0]!.values!['header:x-0']).toBe(`${'é'.repeat(299)}…`)
})

test('a bundle is applied in place of another, and a refused one leaves it', () => {
  const log = new ChangeLog(START_MS)
  log.noteBundle({ event: 'bundle_applied', path: '/b.yaml', version: '1' }, START_MS)
  log.noteBundle({ event: 'bundle_refused', path: '/b.yaml', problems: ['rate: wrong', 'more'], msg: 'refused' }, START_MS + 1)
  log.noteBundle({ event: 'bundle_refused', url: 'https://b/', left_out: ['problems'], msg: 'bundle refused; 1 stays' }, START_MS + 2)
  log.noteBundle({ event: 'bundle_applied', path: '/b.yaml', version: '2' }, START_MS + 3)
  expect(changesOf(log)).toMatchObject([
    { change: 'bundle_applied', before: '1', after: '2', source: '/b.yaml', actor: null, detail: null },
    { change: 'bundle_refused', before: '1', after: '1', source: 'https://b/', detail: 'bundle refused; 1 stays' },
    { change: 'bundle_refused', before: '1', after: '1', source: '/b.yaml', detail: 'rate: wrong' },
    { change: 'bundle_applied', before: null, after: '1' },
  ])
})

test('a flood of one kind removes changes of that kind alone', () => {
  const log = new ChangeLog(START_MS)
  log.noteBundle({ event: 'bundle_applied', path: '/b.yaml', version: '1' }, START_MS)
  log.noteTextRead({ version: '1', actor: 'ada' }, START_MS)
  for (let i = 0; i < 2000; i++) log.noteReset(reset('x'.repeat(900)), START_MS + 1 + i)
  for (let i = 0; i < 2000; i++) log.noteOverride({ kind: 'set', override: override(`${i}`, 1), replaced: undefined })
  for (let i = 0; i < 2000; i++) log.noteBundle({ event: 'bundle_refused', path: '/b.yaml', problems: ['wrong'] }, START_MS + i)
  const kept = changesOf(log).map(({ change }) => change)
  for (const kind of ['bundle_applied', 'bundle_text_read']) expect(kept.filter((change) => change === kind)).toHaveLength(1)
  for (const kind of ['bundle_refused', 'override_set', 'counter_reset'])
    expect(kept.filter((change) => change === kind).length).toBeGreaterThan(100)
  expect(kept).toHaveLength(500)
})

test('announcements are forgotten after ten minutes, and but the last twenty at once', () => {
  const log = new ChangeLog(START_MS)
  const announced = (hash: string) => ({ hash, actor: 'ada', reason: `of ${hash}` })
  const actorsOf = (...hashes: readonly string[]): (string | null)[] => {
    for (const hash of hashes) log.noteBundle({ event: 'bundle_applied', path: '/b.yaml', version: '1', hash }, START_MS + 600_000)
    return changesOf(log, START_MS + 600_000, hashes.length).map(({ reason }) => reason)
  }
  log.announce(announced('old'), START_MS - 1)
  for (let i = 0; i < 21; i++) log.announce(announced(`${i}`), START_MS)
  expect(actorsOf('old', '0', '1', '20')).toEqual(['of 20', 'of 1', null, null])
})
