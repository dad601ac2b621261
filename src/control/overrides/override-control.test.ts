import { pino } from 'pino'
import { describe, expect, onTestFinished, test } from 'vitest'
import { until } from '../../../test/support/until.ts'
import {
  type EditOrder,
  type Override,
  type OverrideOrder,
  type OverridesChange,
  overrideKey,
  type TimedOverride,
} from '../../overrides/override.ts'
import { MAX_OVERRIDES } from '../../overrides/override-map.ts'
import { OVERRIDES } from '../../store/state/state-format.ts'
import { FileOverrideStorage, type KeptOverrides } from './file-override-storage.ts'
import { OverrideControl } from './override-control.ts'

const HOUR_MS = 3_600_000
const START_MS = Date.UTC(2026, 0, 15, 12)

describe('overrides in the main thread', () => {
  test('end by the wall clock, whenever it is set', async () => {
    const { control, clock, announced } = await opened()
    const endMs = clock.nowMs() + HOUR_MS
    const { override } = await control.create(order('a', { inMs: HOUR_MS }))
    const [before] = announced()
    expect(before).toMatchObject({ override: { id: override.id }, toMs: endMs })
    clock.wall += 10 * 60_000
    await until(() => announced()[0]!.toMs !== before!.toMs)
    expect(announced()).toEqual([{ ...before, toMs: before!.toMs - 10 * 60_000 }])
    clock.wall -= 20 * 60_000
    await until(() => announced()[0]!.toMs > before!.toMs)
    expect(announced()).toEqual([{ ...before, toMs: before!.toMs + 10 * 60_000 }])
  })

  test('that are over do not come back when the wall clock is set back', async () => {
    const { control, clock, announced, logged } = await opened()
    await control.create(order('a', { inMs: HOUR_MS }))
    clock.wall += 2 * HOUR_MS
    expect(control.list()).toEqual([])
    await until(() => logged('override_ended').length > 0 && announced().length === 0)
    clock.wall -= 2 * HOUR_MS
    expect([control.list(), announced()]).toEqual([[], []])
    expect((await control.create(order('a', { inMs: HOUR_MS }))).override.subject).toEqual(order('a', { inMs: 0 }).subject)
  })

  test('that are replaced hold until the next one does', async () => {
    const { control, announced } = await opened()
    const first = (await control.create(order('a', { inMs: HOUR_MS }))).override
    const replacing = control.create({ ...order('a', { inMs: HOUR_MS }), replace: first.id })
    await until(() => announced().length === 2)
    const [old, next] = announced()
    expect([old!.override.id, old!.toMs]).toEqual([first.id, next!.fromMs])
    await control.end({ id: (await replacing).override.id, actor: 'erika', reason: 'a test' })
    expect(announced()).toEqual([])
  })

  test('that are replaced twice hold until the last one does, if the one between never was in force', async () => {
    const { control, announced } = await opened()
    const first = (await control.create(order('a', { inMs: HOUR_MS }))).override
    const second = control.create({ ...order('a', { inMs: HOUR_MS }), replace: first.id })
    // No timer comes in between, so the second is in the list and not yet in force.
    for (let turn = 0; turn < 100 && control.list()[0]!.override.id === first.id; turn++) await null
    const { id } = control.list()[0]!.override
    expect(id).not.toBe(first.id)
    const third = control.create({ ...order('a', { inMs: HOUR_MS }), replace: id })
    await until(() => announced().length === 2)
    const [old, next] = announced()
    expect([old!.override.id, old!.toMs]).toEqual([first.id, next!.fromMs])
    expect([(await second).override.id, (await third).override.id]).toEqual([id, next!.override.id])
  })

  test('that are edited keep their id, and hold as they were until the edit does', async () => {
    const { control, announced, logged, clock } = await opened()
    const first = (await control.create(order('a', { inMs: HOUR_MS }))).override
    clock.wall += 1000
    const editedMs = clock.wall
    const editing = control.edit({ ...edit(first), change: { kind: 'multiply', factor: 5 }, until: { inMs: 2 * HOUR_MS } })
    await until(() => announced().length === 2)
    const [old, next] = announced()
    expect([old!.override, old!.toMs]).toEqual([first, next!.fromMs])
    const { override } = await editing
    expect(override).toMatchObject({
      id: first.id,
      createdMs: first.createdMs,
      untilMs: editedMs + 2 * HOUR_MS,
      change: { kind: 'multiply', factor: 5 },
      actor: first.actor,
      reason: first.reason,
      edit: { version: expect.stringMatching(/^[0-9a-f]{8}$/), actor: 'max', reason: 'an edit', atMs: editedMs },
    })
    expect(control.list()).toMatchObject([{ override: { id: first.id } }])
    const before = { change_before: 'block', until_before: new Date(first.untilMs).toISOString() }
    expect(logged('override_edited')).toMatchObject([
      { id: first.id, actor: 'max', reason: 'an edit', change: 'multiply 5', until: new Date(override.untilMs).toISOString(), ...before },
    ])
    expect([logged('override_ended'), logged('override_set').length]).toEqual([[], 1])
    await control.end({ id: first.id, actor: 'erika', reason: 'a test' })
    expect(announced()).toEqual([])
  })

  test('are edited by one of two operators, and the other is told', async () => {
    const { control } = await opened()
    const first = (await control.create(order('a', { inMs: HOUR_MS }))).override
    const both = await Promise.allSettled([
      control.edit({ ...edit(first), until: { inMs: 2 * HOUR_MS } }),
      control.edit({ ...edit(first), until: { inMs: 3 * HOUR_MS } }),
    ])
    expect(both.map(({ status }) => status).sort()).toEqual(['fulfilled', 'rejected'])
    const lost = both.find(({ status }) => status === 'rejected') as PromiseRejectedResult
    expect(lost.reason).toMatchObject({
      code: 'override_exists',
      message: expect.stringContaining('was changed by somebody else meanwhile'),
    })
    // What was checked against an earlier version is not applied to a later one.
    await expect(control.edit({ ...edit(first), until: { inMs: HOUR_MS } })).rejects.toMatchObject({ code: 'override_exists' })
    const [current] = control.list()
    const again = await control.edit({ ...edit(current!.override), until: { inMs: HOUR_MS } })
    expect(again.override.edit!.version).not.toBe(current!.override.edit!.version)
    // Replacing takes the id, whatever its version is.
    await control.create({ ...order('a', { inMs: HOUR_MS }), replace: first.id })
    await expect(control.edit({ ...edit(again.override), until: { inMs: HOUR_MS } })).rejects.toMatchObject({ code: 'unknown_override' })
  })

  test('that are over are remembered, the last of them, with who ended them and why', async () => {
    const { control, clock, logged } = await opened()
    const first = (await control.create(order('a', { inMs: HOUR_MS }))).override
    const edited = (await control.edit({ ...edit(first), until: { inMs: 2 * HOUR_MS } })).override
    const second = (await control.create({ ...order('a', { inMs: HOUR_MS }), replace: first.id, actor: 'ann', reason: 'another' })).override
    await control.end({ id: second.id, actor: 'erika', reason: 'enough' })
    const third = (await control.create(order('b', { inMs: HOUR_MS }))).override
    clock.wall += 2 * HOUR_MS
    await until(() => logged('override_ended').length === 3)
    expect(control.listEnded()).toEqual([
      { override: third, endedMs: expect.any(Number), why: 'over', by: undefined },
      { override: second, endedMs: expect.any(Number), why: 'ended', by: { actor: 'erika', reason: 'enough' } },
      { override: edited, endedMs: expect.any(Number), why: 'replaced', by: { actor: 'ann', reason: 'another' } },
      { override: first, endedMs: expect.any(Number), why: 'edited', by: { actor: 'max', reason: 'an edit' } },
    ])
    const times = control.listEnded().map(({ endedMs }) => endedMs)
    expect(times).toEqual(times.toSorted((a, b) => b - a))
    const many = await Promise.all(Array.from({ length: 250 }, (_, i) => control.create(order(`rule ${i}`, { inMs: HOUR_MS }))))
    await Promise.all(many.map(({ override: { id } }) => control.end({ id, actor: 'erika', reason: 'a test' })))
    expect(control.listEnded()).toHaveLength(200)
    expect(control.listEnded().every(({ by }) => by?.reason === 'a test')).toBe(true)
  })

  test('whose edit an instance of an earlier version has left out, writing them back, are taken as they are', async () => {
    const log: Record<string, unknown>[] = []
    const logger = pino({}, { write: (line: string) => void log.push(JSON.parse(line)) })
    const clock = new SetClock(0, START_MS)
    const control = new OverrideControl({ clock, logger, announce: () => {}, known: async () => {}, streamsCut: async () => {} })
    await control.start({
      start: async () => {},
      put: () => Promise.reject(new Error('not called')),
      timed: (override) => ({ override, fromMs: 0, toMs: HOUR_MS }),
      wallMs: () => START_MS,
      isDurable: () => true,
      close: async () => {},
    })
    onTestFinished(() => control.close())
    const { subject, change } = order('a', { inMs: HOUR_MS })
    const set = { id: 'abc', subject, change, sinceMs: 0, untilMs: START_MS + HOUR_MS, createdMs: 0, actor: 'erika', reason: 'a test' }
    const edited = { ...set, edit: { version: '1', actor: 'max', reason: 'an edit', atMs: 0 } }
    const times = { kind: 'set', momentMs: 5, forgetMs: set.untilMs } as const
    for (const override of [edited, set]) control.map.merge([{ ...times, override }], START_MS)
    expect(control.list()).toEqual([{ override: set, isDurable: true }])
    expect(log.map(({ event }) => event)).toEqual(['override_set', 'override_ended', 'override_set'])
  })

  test('are never more than there may be, though many are made at once', async () => {
    const { control } = await opened()
    const made = Array.from({ length: MAX_OVERRIDES + 20 }, (_, i) => control.create(order(`rule ${i}`, { inMs: HOUR_MS })))
    const refused = (await Promise.allSettled(made)).filter(({ status }) => status === 'rejected')
    expect([refused.length, control.list().length]).toEqual([20, MAX_OVERRIDES])
    expect(refused[0]).toMatchObject({ reason: { message: expect.stringContaining(`there are already ${MAX_OVERRIDES} overrides`) } })
  })

  test('are between the same counters in the state file, whenever the wall clock was set', async () => {
    const { control, clock, sections } = await opened()
    const { override } = await control.create(order('a', { inMs: HOUR_MS }))
    const ageMs = 1000
    clock.advance(ageMs)
    clock.wall -= HOUR_MS / 2
    const again = await opened({ saved: sections(), clock: new SetClock(5, clock.wall) })
    expect(again.announced()).toMatchObject([{ override: { id: override.id }, toMs: 5 + HOUR_MS * 1.5 - ageMs - NOTICE_MS }])
    // However the wall clock was set, it has been in force for so long.
    expect(again.announced()[0]!.fromMs).toBeCloseTo(5 - ageMs)
    expect(again.control.list()).toMatchObject([{ override: { id: override.id }, isDurable: true }])
  })

  test('come back from the state file as they were edited', async () => {
    const { control, clock, sections } = await opened()
    const { override } = await control.create({ ...order('a', { inMs: HOUR_MS }), change: { kind: 'block', cutsStreams: true } })
    const edited = (await control.edit({ ...edit(override), until: { inMs: 2 * HOUR_MS } })).override
    const again = await opened({ saved: sections(), clock: new SetClock(5, clock.wall) })
    const { sinceMs: _, ...kept } = edited
    expect(again.control.list()).toMatchObject([{ override: kept, isDurable: true }])
    expect(again.control.list()[0]!.override.change).toEqual({ kind: 'block', cutsStreams: true })
    const more = await again.control.edit({ ...edit(again.control.list()[0]!.override), until: { inMs: HOUR_MS } })
    expect(more.override).toMatchObject({ id: override.id, createdMs: override.createdMs })
  })

  test('go on when the process starts with a wall clock that was set back', async () => {
    const { control, clock, sections } = await opened()
    await control.create(order('a', { inMs: HOUR_MS }))
    const again = await opened({ saved: sections(), clock: new SetClock(5, clock.wall - 24 * HOUR_MS) })
    expect(again.announced()[0]!.fromMs).toBeLessThanOrEqual(5)
    again.clock.wall += 24 * HOUR_MS
    await until(() => again.announced()[0]!.toMs <= 5 + HOUR_MS)
  })

  test('are refused beyond a number, until one is ended', async () => {
    const { control, announced } = await opened()
    const all = await Promise.all(Array.from({ length: 1000 }, (_, i) => control.create(order(`caller-${i}`, { inMs: HOUR_MS }))))
    expect(announced().length).toBe(1000)
    await expect(control.create(order('one more', { inMs: HOUR_MS }))).rejects.toThrow('already 1000 overrides')
    const replace = all[7]!.override.id
    await control.create({ ...order('caller-7', { inMs: HOUR_MS }), replace })
    await control.end({ id: all[8]!.override.id, actor: 'erika', reason: 'a test' })
    await control.create(order('one more', { inMs: HOUR_MS }))
  })

  test('that were ended elsewhere in a fleet, and are remembered, do not count', async () => {
    const { control, clock } = await opened()
    const ends = Array.from({ length: 1000 }, (_, i) => {
      const { subject, actor, reason } = order(`caller-${i}`, { inMs: 0 })
      return { kind: 'ended' as const, id: `${i}`, subject, actor, reason, momentMs: clock.wall, forgetMs: clock.wall + HOUR_MS }
    })
    control.map.merge(ends, clock.wall)
    expect((await control.create(order('one more', { inMs: HOUR_MS }))).override.change.kind).toBe('block')
  })

  test('are announced once, in parts that no worker is busy with for long', async () => {
    const { control, clock, messages } = await opened()
    const first = await control.create(order('a', { inMs: HOUR_MS }))
    await Promise.all(Array.from({ length: 199 }, (_, i) => control.create(order(`caller-${i}`, { inMs: HOUR_MS }))))
    expect(messages.flatMap(({ put }) => put).length).toBe(200)
    expect(Math.max(...messages.map(({ put }) => put.length))).toBeLessThanOrEqual(50)
    await control.end({ id: first.override.id, actor: 'erika', reason: 'a test' })
    expect(messages.at(-1)).toEqual({ put: [], gone: [first.override.id] })
    const before = messages.length
    clock.wall += 60_000
    await until(() => messages.slice(before).flatMap(({ put }) => put).length === 199)
    expect(Math.max(...messages.map(({ put }) => put.length))).toBe(50)
  })

  test('cannot be set before those from before are known', async () => {
    const control = new OverrideControl({
      clock: new SetClock(0, START_MS),
      logger: pino({ level: 'silent' }),
      announce: () => {},
      known: async () => {},
      streamsCut: async () => {},
    })
    await expect(control.create(order('a', { inMs: HOUR_MS }))).rejects.toMatchObject({ code: 'store_unavailable' })
    expect(() => control.list()).toThrow('loaded')
  })
})

/** Between setting an override and its being in force. */
const NOTICE_MS = 100

function order(caller: string, until: OverrideOrder['until']): OverrideOrder {
  const subject = { policy: 'p', rule: 'r', values: { 'header:x-caller': caller } }
  return { subject, change: { kind: 'block' }, until, actor: 'erika', reason: 'a test', replace: undefined }
}

/** An edit that changes nothing yet. */
function edit(override: Override): EditOrder {
  return { id: override.id, key: overrideKey(override), change: undefined, until: undefined, actor: 'max', reason: 'an edit' }
}

/** An override control on a clock that can be set, with a state file that is always saved. */
async function opened({ saved = [], clock = new SetClock(1_000_000, START_MS) }: { saved?: readonly Buffer[]; clock?: SetClock } = {}) {
  const log: Record<string, unknown>[] = []
  const logger = pino({}, { write: (line: string) => void log.push(JSON.parse(line)) })
  const messages: OverridesChange[] = []
  const announce = (change: OverridesChange): void => void messages.push(change)
  // In force at once for whoever waits for it
  const known = async (): Promise<void> => clock.advance(NOTICE_MS)
  const control = new OverrideControl({ clock, logger, announce, known, streamsCut: async () => {} })
  let sections: Parameters<KeptOverrides['file']['saveWith']>[0] = () => []
  const file: KeptOverrides['file'] = {
    saveWith: (more) => {
      sections = more
    },
  }
  const keeper: KeptOverrides['keeper'] = { saveNow: async () => true, savedUpToMs: 0 }
  await control.start(
    new FileOverrideStorage({ map: control.map, clock, logger, askThreads: async () => {}, kept: { saved, file, keeper } }),
  )
  onTestFinished(() => control.close())
  return {
    control,
    clock,
    /** What the workers know. One that starts now is sent the same. */
    announced: () => {
      const known = knownFrom(messages)
      expect(control.announced()).toEqual(known)
      return known
    },
    messages,
    logged: (name: string) => log.filter(({ event }) => event === name),
    sections: () => {
      const payloads = [...sections({ nowMs: clock.nowMs(), wallMs: clock.wallMs() })]
      expect(payloads.every(([type]) => type === OVERRIDES)).toBe(true)
      return payloads.map(([, payload]) => payload)
    },
  }
}

function knownFrom(messages: readonly OverridesChange[]): TimedOverride[] {
  const known = new Map<string, TimedOverride>()
  for (const { put, gone } of messages) {
    for (const key of gone) known.delete(key)
    for (const timed of put) known.set(overrideKey(timed.override), timed)
  }
  return [...known.values()]
}

/** Time passes when it is told to, and the wall clock can be set. */
class SetClock {
  now: number
  wall: number

  constructor(now: number, wall: number) {
    this.now = now
    this.wall = wall
  }

  advance(ms: number): void {
    this.now += ms
    this.wall += ms
  }

  nowMs(): number {
    return this.now
  }

  wallMs(): number {
    return this.wall
  }
}
