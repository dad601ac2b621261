import { PlanSwitch } from '../../../src/engine/active-plan.ts'
import { Engine } from '../../../src/engine/engine.ts'
import type { OverrideChange, OverrideSubject, TimedOverride } from '../../../src/overrides/override.ts'
import { compileBundle } from '../../../src/policy/compile.ts'
import { parseBundle } from '../../../src/policy/parse.ts'
import type { Plan } from '../../../src/policy/plan.ts'
import { type PlainRequest, PlainRequestView } from '../../../src/request/view.ts'
import { CallerDigester } from '../../../src/store/caller-digester.ts'
import type { CounterStore } from '../../../src/store/counter-store.ts'
import { newEmbeddedStore } from '../../../src/store/table/embedded-store.ts'
import { bundle, type PolicyText } from '../bundles/bundles.ts'
import { ManualClock } from '../service/manual-clock.ts'

const digest = new CallerDigester([1, 2])

/** Names callers as the engine of `overriddenEngine` does. */
export const callerDigest = (values: readonly string[]): string => digest.of(values)

export const TWICE: OverrideChange = { kind: 'multiply', factor: 2 }
export const THRICE: OverrideChange = { kind: 'multiply', factor: 3 }
export const UNLIMITED: OverrideChange = { kind: 'unlimited' }
export const BLOCK: OverrideChange = { kind: 'block' }

export function planOf(...policies: readonly PolicyText[]): Plan {
  const parsed = parseBundle(JSON.stringify({ ...bundle(1, ...policies), prices: { table: { '*': { input: 1, output: 1 } } } }))
  if (!parsed.ok) throw new Error(JSON.stringify(parsed.problems))
  return compileBundle(parsed.bundle)
}

/** Of rule `r` of policy `p`, for one caller or for all. */
export function ruleOf(values?: Readonly<Record<string, string>>): OverrideSubject {
  return { policy: 'p', rule: 'r', values }
}

let made = 0

/** An override that is in force at once, and for an hour. */
export function override(subject: OverrideSubject, change: OverrideChange, clock: ManualClock, fromMs = clock.nowMs()): TimedOverride {
  const sinceMs = clock.wallMs() + fromMs - clock.nowMs()
  const untilMs = sinceMs + 3_600_000
  const id = `o${++made}`
  const told = { actor: 'ann', reason: 'a test', createdMs: sinceMs }
  return { override: { id, subject, change, sinceMs, untilMs, ...told }, fromMs, toMs: fromMs + 3_600_000 }
}

export function overriddenEngine(
  policies: readonly PolicyText[],
  store: CounterStore = newEmbeddedStore(256 * 1024),
  planSwitch = new PlanSwitch(),
) {
  const clock = new ManualClock()
  const engine = new Engine({ store, clock, callerDigest, planSwitch })
  engine.activate(planOf(...policies))
  const view = (headers: PlainRequest['headers'] = {}) => new PlainRequestView({ method: 'GET', uri: '/', headers })
  return {
    engine,
    clock,
    view,
    /** Makes this override the only one, a moment later. */
    set: (subject: OverrideSubject, change: OverrideChange): TimedOverride => {
      clock.advance(1)
      const timed = override(subject, change, clock)
      setOverrides(engine, [timed])
      return timed
    },
    decide: (headers?: PlainRequest['headers']) => engine.decide(view(headers)),
    /** How many requests pass now. */
    passing: (headers?: PlainRequest['headers'], most = 1000): number => {
      for (let i = 0; i < most; i++) {
        const decision = engine.decide(view(headers))
        if (decision instanceof Promise || decision.action !== 'allow') return i
      }
      return most
    },
  }
}

const known = new WeakMap<Engine, readonly TimedOverride[]>()

/** Tells the engine of these, and of the end of all others. */
export function setOverrides(engine: Engine, overrides: readonly TimedOverride[]): void {
  const ids = new Set(overrides.map(({ override: { id } }) => id))
  const gone = (known.get(engine) ?? []).map(({ override: { id } }) => id).filter((id) => !ids.has(id))
  known.set(engine, overrides)
  engine.changeOverrides({ put: overrides, gone })
}
