import fc from 'fast-check'
import { expect, test } from 'vitest'
import { bucketRule, concurrencyRule, policy, windowRule } from '../../../test/support/bundles/bundles.ts'
import { BLOCK, override, planOf, ruleOf, setOverrides, TWICE, UNLIMITED } from '../../../test/support/overrides/overridden-engine.ts'
import { WaitingWorld, type WorldRequest } from '../../../test/support/proxy/waiting-world.ts'
import { runs } from '../../../test/support/run/property-runs.ts'

const KEY = 'header:x-k'
const CALLERS = ['a', 'b']

/** Timers count whole milliseconds, so a request may pass this much later than it could. */
const ROUNDING_MS = 2

/** A bucket with a line, written down as simply as it can be: time goes in steps of a millisecond. */
class ModelBucket {
  level: number
  readonly line: { readonly id: number; readonly cost: number }[] = []
  readonly passedMs = new Map<number, number>()
  readonly #perMs: number
  readonly #burst: number

  constructor(perMs: number, burst: number) {
    this.#perMs = perMs
    this.#burst = burst
    this.level = burst
  }

  /** Returns how long the request will wait: 0 if it passes, Infinity if it never will. */
  come(id: number, cost: number, nowMs: number): number {
    const before = this.line.reduce((sum, each) => sum + each.cost, 0)
    if (cost > this.#burst) return Number.POSITIVE_INFINITY
    const missing = before + cost - this.level
    if (missing > 0) return missing / this.#perMs
    this.level -= cost
    this.passedMs.set(id, nowMs)
    return 0
  }

  step(nowMs: number): void {
    this.level = Math.min(this.#burst, this.level + this.#perMs)
    // What is missing by a rounding error is not missing.
    while (this.line.length > 0 && this.line[0]!.cost <= this.level + 1e-9) {
      const { id, cost } = this.line.shift()!
      this.level -= cost
      this.passedMs.set(id, nowMs)
    }
  }

  leave(id: number): void {
    const at = this.line.findIndex((each) => each.id === id)
    if (at >= 0) this.line.splice(at, 1)
  }
}

const coming = fc.record({
  kind: fc.constant('come' as const),
  caller: fc.constantFrom(...CALLERS),
  cost: fc.integer({ min: 1, max: 4 }),
})
const leaving = fc.record({ kind: fc.constant('leave' as const), which: fc.nat(30) })
const passing = fc.record({ kind: fc.constant('pass' as const), ms: fc.integer({ min: 1, max: 400 }) })

test('whoever waits for a bucket passes when the model says so, in order, and whoever would be late is rejected at once', () => {
  fc.assert(
    fc.property(
      fc.constantFrom(2, 5, 10, 20),
      fc.integer({ min: 1, max: 5 }),
      fc.constantFrom(0.2, 0.5, 1, 3),
      fc.array(fc.oneof({ weight: 4, arbitrary: coming }, { weight: 1, arbitrary: leaving }, { weight: 2, arbitrary: passing }), {
        maxLength: 40,
      }),
      (perSecond, burst, seconds, events) => {
        const config = { tokens_per_second: perSecond, burst, cost: { header: 'x-cost' } }
        const rule = { name: 'r', limit_keys: [KEY], algorithm: 'token_bucket', wait_seconds: seconds, algorithm_config: config }
        const world = new WaitingWorld([policy('p', { rules: [rule] })])
        const models = new Map(CALLERS.map((caller) => [caller, new ModelBucket(perSecond / 1000, burst)]))
        const asked: { readonly request: WorldRequest; readonly caller: string; readonly waitMs: number }[] = []
        const pass = (ms: number): void => {
          for (let i = 0; i < ms; i++) {
            world.pass(1)
            for (const model of models.values()) model.step(world.clock.nowMs())
          }
        }
        for (const event of events) {
          if (event.kind === 'pass') pass(event.ms)
          else if (event.kind === 'leave') {
            const left = asked[event.which]
            if (left?.request.isWaiting !== true) continue
            left.request.leave()
            models.get(left.caller)!.leave(event.which)
          } else {
            const model = models.get(event.caller)!
            const waitMs = model.come(asked.length, event.cost, world.clock.nowMs())
            // At the boundary, one rounds up and the other down.
            if (Number.isFinite(waitMs) && Math.abs(waitMs - seconds * 1000) < ROUNDING_MS) continue
            if (waitMs > 0 && waitMs <= seconds * 1000) model.line.push({ id: asked.length, cost: event.cost })
            asked.push({ request: world.ask({ 'x-k': event.caller, 'x-cost': String(event.cost) }), caller: event.caller, waitMs })
          }
        }
        pass(seconds * 1000 + ROUNDING_MS)
        for (const [id, { request, caller, waitMs }] of asked.entries()) {
          if (request.ending === 'gone') continue
          const passedMs = models.get(caller)!.passedMs.get(id)
          expect([id, waitMs, request.ending]).toEqual([id, waitMs, passedMs === undefined ? 'rejected' : 'allowed'])
          if (passedMs === undefined) expect(request.endedMs).toBe(request.cameMs)
          else expect(Math.abs(request.endedMs - passedMs)).toBeLessThanOrEqual(ROUNDING_MS)
        }
        expect([world.room.isEmpty, world.reported]).toEqual([true, asked.filter(({ request }) => request.ending === 'rejected').length])
      },
    ),
    { numRuns: runs(60) },
  )
})

const seconds = fc.constantFrom(undefined, 0.5, 2, 10)
const withWait = (rule: object, wait: number | undefined): object => (wait === undefined ? rule : { ...rule, wait_seconds: wait })
const anyRules = fc
  .tuple(seconds, seconds, seconds, fc.boolean())
  .map(([bucket, window, flight, isKeyed]) => [
    withWait(bucketRule('r', [KEY], 2, 2), bucket),
    withWait(windowRule('window', isKeyed ? [KEY] : [], { limit: 8, period: '1m' }), window),
    withWait(concurrencyRule('flight', [], 3), flight),
  ])
const anything = fc.oneof(
  { weight: 6, arbitrary: fc.record({ kind: fc.constant('come' as const), caller: fc.constantFrom('a', 'b', 'c'), bytes: fc.nat(3) }) },
  { weight: 2, arbitrary: leaving },
  { weight: 2, arbitrary: fc.record({ kind: fc.constant('finish' as const), which: fc.nat(30) }) },
  { weight: 3, arbitrary: fc.record({ kind: fc.constant('pass' as const), ms: fc.integer({ min: 1, max: 3000 }) }) },
  { weight: 1, arbitrary: fc.record({ kind: fc.constant('bundle' as const), rules: anyRules }) },
  { weight: 1, arbitrary: fc.record({ kind: fc.constant('override' as const), change: fc.constantFrom(TWICE, UNLIMITED, BLOCK) }) },
  { weight: 1, arbitrary: fc.constant({ kind: 'drain' as const }) },
)

test('whatever happens, every request ends once and in time, every rejection is reported once, and nothing is left over', () => {
  fc.assert(
    fc.property(anyRules, fc.array(anything, { maxLength: 60 }), (first, events) => {
      const world = new WaitingWorld([policy('p', { rules: first })], 5)
      world.maxBodyBytes = 6
      const finished = new Set<WorldRequest>()
      for (const event of events) {
        if (event.kind === 'pass') world.pass(event.ms)
        else if (event.kind === 'come') world.ask({ 'x-k': event.caller }, '192.0.2.1', event.bytes)
        else if (event.kind === 'leave') world.requests[event.which]?.leave()
        else if (event.kind === 'drain') world.room.close()
        else if (event.kind === 'bundle') world.engine.activate(planOf(policy('p', { rules: event.rules })))
        else if (event.kind === 'override') {
          setOverrides(world.engine, [override(ruleOf({ [KEY]: 'a' }), event.change, world.clock)])
        } else {
          const request = world.requests[event.which]
          if (request?.ending !== 'allowed' || finished.has(request)) continue
          finished.add(request)
          request.finish()
        }
        expect(world.requests.filter(({ isWaiting }) => isWaiting).length).toBeLessThanOrEqual(5)
        expect(world.bodyBytes).toBeLessThanOrEqual(6)
      }
      world.pass(10_000 + ROUNDING_MS)
      for (const { ending, endedMs, cameMs } of world.requests) {
        expect(ending).toBeDefined()
        expect(endedMs - cameMs).toBeLessThanOrEqual(10_000 + ROUNDING_MS)
      }
      const rejected = world.requests.filter(({ ending }) => ending === 'rejected').length
      expect([world.room.isEmpty, world.bodyBytes, world.reported]).toEqual([true, 0, rejected])
    }),
    { numRuns: runs(60) },
  )
})
