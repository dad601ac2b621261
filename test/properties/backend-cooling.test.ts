import fc from 'fast-check'
import { expect, test } from 'vitest'
import type { AttemptPlan } from '../../src/proxy/backends/attempt-plan.ts'
import { BackendPool, type PoolChoice, type PoolRoute, poolRoute } from '../support/proxy/backend-pool.ts'
import { runs } from '../support/run/property-runs.ts'

const BACKENDS = ['a', 'b', 'open', 'f']
const MODELS = ['m', 'n']
const WORKERS = 3
const ROUTES = [
  poolRoute('a*2 b', '', { attempts: 1 }),
  poolRoute('a b*0 open', 'f', { attempts: 3 }),
  poolRoute('a', 'b:n f', { attempts: 2 }),
  poolRoute('b', '', { attempts: 2 }),
  poolRoute('open b:m', 'a', { attempts: 0 }),
]

const KEYS = BACKENDS.flatMap((name) => MODELS.map((model) => [name, model] as const))

type Outcome = 200 | 404 | 429 | 401 | 500 | 'connect' | 'timeout' | 'left'

type Step =
  | { readonly do: 'wait'; readonly ms: number }
  | { readonly do: 'begin'; readonly worker: number; readonly route: number; readonly model: string; readonly stickTo: string }
  | {
      readonly do: 'end'
      readonly which: number
      readonly outcome: Outcome
      readonly retryAfterMs: number | undefined
      readonly goesOn: boolean
    }
  | { readonly do: 'die'; readonly worker: number }

const anyStep: fc.Arbitrary<Step> = fc.oneof(
  { weight: 3, arbitrary: fc.record({ do: fc.constant('wait' as const), ms: fc.constantFrom(0, 1, 400, 1000, 5000, 60_000, 600_000) }) },
  {
    weight: 6,
    arbitrary: fc.record({
      do: fc.constant('begin' as const),
      worker: fc.nat(WORKERS - 1),
      route: fc.nat(ROUTES.length - 1),
      model: fc.constantFrom(...MODELS),
      stickTo: fc.constantFrom('', 'ada', 'bob'),
    }),
  },
  {
    weight: 8,
    arbitrary: fc.record({
      do: fc.constant('end' as const),
      which: fc.nat(50),
      outcome: fc.constantFrom<Outcome[]>(200, 404, 429, 401, 500, 500, 500, 'connect', 'connect', 'timeout', 'timeout', 'left'),
      retryAfterMs: fc.constantFrom(undefined, undefined, 500, 3000, 30_000, 86_400_000),
      goesOn: fc.boolean(),
    }),
  },
  { weight: 1, arbitrary: fc.record({ do: fc.constant('die' as const), worker: fc.nat(WORKERS - 1) }) },
)

interface Call {
  readonly worker: number
  readonly route: PoolRoute
  readonly plan: AttemptPlan<PoolChoice>
  readonly model: string
  readonly tried: PoolChoice[]
  startedAtMs: number
}

/** What is true of a backend, or of a model of it, that has cooled. */
interface Cooled {
  failures: number
  deadlineMs: number
  sinceMs: number
  probe: { readonly call: Call; readonly sinceMs: number } | undefined
}

/** The rules, written as plainly as they can be, for one thread that knows everything. */
class Model {
  nowMs = 0
  readonly rows = new Map<string, { count: number; wishedUntilMs: number }>()
  readonly cooled = new Map<string, Cooled>()

  keys(choice: PoolChoice, model: string): string[] {
    return [choice.backend.name, `${choice.backend.name}/${choice.model ?? model}`].filter((key) => this.cooled.has(key))
  }

  untilMs(choice: PoolChoice, model: string): number {
    return Math.max(0, ...this.keys(choice, model).map((key) => this.cooled.get(key)!.deadlineMs))
  }

  canProbe(choice: PoolChoice, model: string): boolean {
    return this.keys(choice, model).every((key) => {
      const { probe, failures } = this.cooled.get(key)!
      return probe === undefined || this.nowMs - probe.sinceMs >= lengthMs(failures)
    })
  }

  /** What the next call of a request may be. */
  allowed({ route, tried, model }: Call): (PoolChoice | 'cooling' | undefined)[] {
    const group = route.group.filter(({ weight }) => weight > 0)
    const all = [...group, ...route.fallback]
    if (tried.length > route.retry.attempts) return [undefined]
    if (all.length === 1) return tried.length === 0 ? all : [undefined]
    const isNew = (choice: PoolChoice): boolean =>
      !tried.some(({ backend, model: sent }) => backend.name === choice.backend.name && (sent ?? model) === (choice.model ?? model))
    const takes = (choice: PoolChoice): boolean =>
      this.untilMs(choice, model) <= this.nowMs && this.canProbe(choice, model) && isNew(choice)
    const open = group.filter(takes)
    if (open.length > 0) return open
    const instead = route.fallback.find(takes)
    if (instead !== undefined || tried.length > 0) return [instead]
    const past = all.find((choice) => this.untilMs(choice, model) <= this.nowMs && !this.cooled.has(choice.backend.name))
    if (past !== undefined) return [past]
    const nearestMs = Math.min(...all.map((choice) => this.untilMs(choice, model)))
    const nearest = all.find((choice) => this.untilMs(choice, model) === nearestMs)!
    return [this.canProbe(nearest, model) ? nearest : 'cooling']
  }

  begin(call: Call, choice: PoolChoice): void {
    call.startedAtMs = this.nowMs
    call.tried.push(choice)
    if (isAlone(call.route) || !this.canProbe(choice, call.model)) return
    for (const key of this.keys(choice, call.model)) {
      const cooled = this.cooled.get(key)!
      if (cooled.probe !== undefined) cooled.failures++
      cooled.probe = { call, sinceMs: this.nowMs }
    }
  }

  end(call: Call, outcome: Outcome, retryAfterMs: number | undefined): void {
    const choice = call.tried.at(-1)!
    const { name, hasCredential } = choice.backend
    const ofModel = `${name}/${choice.model ?? call.model}`
    const wishMs = typeof outcome !== 'number' || retryAfterMs === undefined ? undefined : Math.min(retryAfterMs, 600_000)
    if (outcome === 'connect' || outcome === 'timeout' || outcome === 500) {
      const row = this.rows.get(name) ?? { count: 0, wishedUntilMs: 0 }
      row.count++
      if (wishMs !== undefined) row.wishedUntilMs = Math.max(row.wishedUntilMs, this.nowMs + wishMs)
      this.rows.set(name, row)
      if (row.count >= 3 && !isAlone(call.route)) this.cool(name, call, wishMs, row.wishedUntilMs)
    } else if (outcome !== 'left') {
      if (this.isNews(name, call)) {
        this.cooled.delete(name)
        this.rows.delete(name)
      }
      if (outcome !== 429 && outcome !== 401) {
        if (this.isNews(ofModel, call)) this.cooled.delete(ofModel)
      } else if (hasCredential && !isAlone(call.route)) this.cool(ofModel, call, wishMs, 0)
    }
    for (const cooled of this.cooled.values()) if (cooled.probe?.call === call) cooled.probe = undefined
  }

  die(worker: number): void {
    for (const cooled of this.cooled.values()) if (cooled.probe?.call.worker === worker) cooled.probe = undefined
  }

  cool(key: string, call: Call, wishMs: number | undefined, leastMs: number): void {
    const cooled = this.cooled.get(key) ?? { failures: 0, deadlineMs: 0, sinceMs: Number.NEGATIVE_INFINITY, probe: undefined }
    if (call.startedAtMs > cooled.sinceMs) {
      cooled.failures++
      cooled.sinceMs = this.nowMs
    }
    cooled.deadlineMs = Math.max(cooled.deadlineMs, leastMs, this.nowMs + (wishMs ?? lengthMs(cooled.failures)))
    this.cooled.set(key, cooled)
  }

  isNews(key: string, call: Call): boolean {
    return call.startedAtMs > (this.cooled.get(key)?.sinceMs ?? Number.NEGATIVE_INFINITY)
  }
}

test('whatever fails, dies or comes late, all workers cool, probe and choose as one thread would that knows everything', () => {
  fc.assert(
    fc.property(fc.array(anyStep, { minLength: 20, maxLength: 200 }), fc.nat(), (steps, startMs) => {
      const pool = new BackendPool(BACKENDS.join(' '), WORKERS)
      const model = new Model()
      pool.nowMs = model.nowMs = startMs
      let calls: Call[] = []
      let before = KEYS.map(() => 0)

      const goOn = (call: Call): void => {
        const allowed = model.allowed(call)
        const nearestMs = Math.min(
          ...[...call.route.group, ...call.route.fallback]
            .filter(({ weight }) => weight > 0)
            .map((choice) => model.untilMs(choice, call.model)),
        )
        const chosen = call.plan.next()
        expect(allowed).toContain(chosen)
        if (chosen === 'cooling') expect(call.plan.retryAfterMs).toBe(Math.max(nearestMs - model.nowMs, 1000))
        if (typeof chosen !== 'object') return
        model.begin(call, chosen)
        calls.push(call)
      }

      for (const step of steps) {
        if (step.do === 'wait') pool.nowMs = model.nowMs += step.ms
        else if (step.do === 'begin') {
          const route = ROUTES[step.route]!
          const { worker, model: asked, stickTo } = step
          const plan = pool.plan(route, { worker, model: asked, ...(stickTo !== '' && { stickTo }) })
          goOn({ worker, route, plan, model: asked, tried: [], startedAtMs: model.nowMs })
        } else if (step.do === 'die') {
          calls = calls.filter(({ worker }) => worker !== step.worker)
          pool.kill(step.worker)
          model.die(step.worker)
        } else if (calls.length > 0) {
          const { outcome, retryAfterMs } = step
          const ended = calls.splice(step.which % calls.length, 1)[0]!
          if (outcome === 'left') ended.plan.abandon()
          else if (typeof outcome === 'string') ended.plan.failed(outcome)
          else ended.plan.answered(outcome, retryAfterMs)
          model.end(ended, outcome, retryAfterMs)
          if (step.goesOn && outcome !== 'left') goOn(ended)
        }
        const deadlines = deadlinesMs(pool, model.nowMs % WORKERS)
        expect(deadlines).toEqual(KEYS.map(([name, asked]) => model.untilMs(choiceOf(name), asked)))
        // Said once more without the model: nothing but an answer shortens a deadline, none is further than ten minutes away, and no refusal counts
        // against a backend that is called with the client's own key.
        const isAnswer = step.do === 'end' && (step.outcome === 200 || step.outcome === 404 || step.outcome === 429 || step.outcome === 401)
        expect(isAnswer || deadlines.every((untilMs, i) => untilMs >= before[i]!)).toBe(true)
        expect(Math.max(...deadlines) - model.nowMs).toBeLessThanOrEqual(600_000)
        before = deadlines
      }
      for (let worker = 0; worker < WORKERS; worker++) expect(deadlinesMs(pool, worker)).toEqual(before)
      expect(pool.state('open').models).toEqual([])
    }),
    { numRuns: runs(60) },
  )
})

/** The deadlines as one worker sees them. */
function deadlinesMs(pool: BackendPool, worker: number): number[] {
  return KEYS.map(([name, model]) => pool.health(worker).coolingUntil(pool.slot(name), model))
}

function choiceOf(name: string): PoolChoice {
  return poolRoute(name).group[0]!
}

function isAlone({ group, fallback }: PoolRoute): boolean {
  return group.filter(({ weight }) => weight > 0).length + fallback.length === 1
}

function lengthMs(failures: number): number {
  return Math.min(1000 * 2 ** (failures - 1), 60_000)
}
