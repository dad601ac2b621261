import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { bundle, llmRule, policy } from '../../test/support/bundles/bundles.ts'
import { override, setOverrides } from '../../test/support/overrides/overridden-engine.ts'
import { runs } from '../../test/support/run/property-runs.ts'
import { ManualClock } from '../../test/support/service/manual-clock.ts'
import { AsyncStore } from '../../test/support/store/async-store.ts'
import { compileBundle } from '../policy/compile.ts'
import { parseBundle } from '../policy/parse.ts'
import { PlainRequestView } from '../request/view.ts'
import type { CounterStore } from '../store/counter-store.ts'
import { newEmbeddedStore } from '../store/table/embedded-store.ts'
import type { Allowed, Decision, Rejected } from './decision.ts'
import { Engine } from './engine.ts'
import type { Explanation } from './explain/explanation.ts'
import { forgetOpenReservations, newOpenReservationsBuffer, OpenReservations } from './open-reservations.ts'
import type { ReservedCharge } from './reservation.ts'
import type { Wait, WaitingLines } from './waiting-lines.ts'

const WORKERS = 2
const UNTIL_MIDNIGHT_MS = 12 * 3_600_000

describe('a worker that rejects', () => {
  test('knows what the others have open', () => {
    const { workers } = newProcess()
    const [one, other] = workers
    const charge = reserved(one.decide(800))
    expect(other.decide(300)).toMatchObject({ awaitsSettlement: true, limit: { resetMs: 5000 } })
    one.engine.settle(charge, 700)
    expect(other.decide(300)).toMatchObject({ action: 'allow' })
    expect(other.decide(300)).toMatchObject({ awaitsSettlement: true })
  })

  test('knows how long their requests took', () => {
    const { workers, clock } = newProcess()
    const [one, other] = workers
    const charge = reserved(one.decide(800))
    clock.advance(7000)
    one.engine.settle(charge, 0)
    one.decide(800)
    expect(other.decide(300)).toMatchObject({ awaitsSettlement: true, limit: { resetMs: 7000 } })
  })

  test('does not wait for one that has died', () => {
    const { workers, memory } = newProcess()
    const [one, other] = workers
    one.decide(800)
    forgetOpenReservations(memory, 2)
    expect(other.decide(300)).toMatchObject({ awaitsSettlement: true })
    forgetOpenReservations(memory, 1)
    expect(other.decide(300)).toMatchObject({ awaitsSettlement: false, limit: { resetMs: UNTIL_MIDNIGHT_MS } })
  })

  test('lets a request wait behind others that wait, also while nothing is open', () => {
    const [one] = newProcess().workers
    const waits: Wait[] = []
    const lines = { isEmpty: false, aheadIn: () => 600, admit: (wait: Wait) => waits.push(wait) > 0 }
    expect(one.decide(800, 'a', lines)).toMatchObject({ action: 'reject', isWaiting: true, awaitsSettlement: true })
    expect(waits).toMatchObject([{ lookMs: 5000, maxMs: 10_000 }])
    one.engine.settle(reserved(one.decide(500)), 500)
    expect(one.decide(800, 'a', lines)).toMatchObject({ isWaiting: false, awaitsSettlement: false, limit: { resetMs: UNTIL_MIDNIGHT_MS } })
  })

  test('explains what it decides', () => {
    const { workers } = newProcess()
    const [one, other] = workers
    one.decide(800)
    const { decision, policies } = other.explain(300)
    expect(decision).toEqual(other.decide(300))
    expect(policies[0]!.rules[0]!.counters).toMatchObject([{ waitMs: 5000 }])
  })

  test('knows it after a reload, by the name of the rule', () => {
    const { workers, load } = newProcess()
    const [one, other] = workers
    one.decide(800)
    load(2, 'budget')
    expect(other.decide(300)).toMatchObject({ awaitsSettlement: true })
    load(3, 'another')
    other.engine.settle(reserved(other.decide(800)), 800)
    expect(other.decide(300)).toMatchObject({ awaitsSettlement: false, limit: { resetMs: UNTIL_MIDNIGHT_MS } })
  })
})

test.each<[string, Parameters<typeof newProcess>[1], isShadowed: boolean]>([
  ['by a shadow policy', 'shadow', false],
  ['while all policies are in shadow mode', 'enforce', true],
])('what was reserved %s is open until it is settled, and no more is closed than was open', (_, mode, isShadowed) => {
  const { workers, clock, open } = newProcess(undefined, mode)
  const [one] = workers
  if (isShadowed) setOverrides(one.engine, [override('all_policies', { kind: 'shadow' }, clock)])
  const sum = () => open.sumOf(one.engine.plan!.counters[0]!, ['a'], 0, 1, clock.wallMs())
  const charge = reserved(one.decide(800))
  expect(sum()).toBe(800)
  one.engine.settle(charge, 700)
  expect(sum()).toBe(0)
})

test('where a store answers later, what was taken is open before the next is rejected, and until it is back', async () => {
  const store = new AsyncStore()
  const [one] = newProcess(store).workers
  const decisions = [one.decide(800), one.decide(300)]
  await Promise.all([store.answer(), store.answer()])
  const [first, second] = (await Promise.all(decisions)) as [Allowed, Rejected]
  expect([first.action, second.awaitsSettlement, second.limit!.resetMs]).toEqual(['allow', true, 5000])
  const settled = one.engine.settle(reserved(first), 0)
  const meanwhile = one.decide(300)
  await store.answer(1)
  expect(await meanwhile).toMatchObject({ awaitsSettlement: true })
  await store.answerAll()
  await settled
})

test('nothing is open when all is settled, whatever was, by whom and when', () => {
  const step = fc.record({ worker: fc.nat(WORKERS - 1), caller: fc.nat(3), tokens: fc.nat(300), afterMs: fc.nat(3_600_000) })
  fc.assert(
    fc.property(fc.array(step, { maxLength: 40 }), (steps) => {
      const { workers, clock, open } = newProcess()
      const counter = workers[0].engine.plan!.counters[0]!
      const settlements: (() => void)[] = []
      const sums: (() => number)[] = []
      for (const { worker, caller, tokens, afterMs } of steps) {
        clock.advance(afterMs)
        const { engine, decide } = workers[worker]!
        const wallMs = clock.wallMs()
        const decision = decide(tokens, `${caller}`) as Decision
        if (decision.action !== 'allow') continue
        settlements.push(() => engine.settle(reserved(decision), Math.floor(tokens / 2)))
        sums.push(() => open.sumOf(counter, [`${caller}`], 0, 1, wallMs))
      }
      const hadAny = sums.some((sum) => sum() > 0)
      for (const settle of settlements) settle()
      return hadAny === steps.some(({ tokens }) => tokens > 0) && sums.every((sum) => sum() === 0)
    }),
    { numRuns: runs(20) },
  )
})

/** Two workers on what one process shares: a counter for each caller, of 1000 tokens a day. */
function newProcess(store: CounterStore = newEmbeddedStore(64 * 1024), mode: 'enforce' | 'shadow' = 'enforce') {
  const clock = new ManualClock()
  const memory = newOpenReservationsBuffer(WORKERS)
  const newWorker = (worker: number) => {
    const open = new OpenReservations({ memory, worker, hashKey: [3, 4], clock })
    const engine = new Engine({ store, clock, openReservations: open })
    return {
      open,
      engine,
      decide: (tokens: number, caller = 'a', lines?: WaitingLines) => engine.decide(viewOf(caller), { body: bodyOf(tokens), lines }),
      explain: (tokens: number) => engine.explain(viewOf('a'), { body: bodyOf(tokens) }) as Explanation,
    }
  }
  const workers = [newWorker(1), newWorker(2)] as const
  const load = (version: number, name: string): void => {
    const rules = [{ ...llmRule(name, ['header:x-key'], { tokens_per_day: 1000 }), wait_seconds: 10 }]
    const parsed = parseBundle(JSON.stringify(bundle(version, policy('p', { mode, rules }))))
    if (!parsed.ok) throw new Error(JSON.stringify(parsed.problems))
    for (const { engine } of workers) engine.activate(compileBundle(parsed.bundle))
  }
  load(1, 'budget')
  return { workers, clock, memory, load, open: workers[1].open }
}

/** What reserves its prompt and nothing else. */
function viewOf(caller: string): PlainRequestView {
  return new PlainRequestView({ method: 'POST', uri: '/v1/embeddings', headers: { 'x-key': caller } })
}

function bodyOf(promptTokens: number) {
  return { promptTokens, requestedTokens: undefined, choices: 1, isStream: false, model: undefined }
}

function reserved(decision: Decision | Promise<Decision>): ReservedCharge {
  return (decision as Allowed).reservation!.charges[0]!
}
