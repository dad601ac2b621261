import fc from 'fast-check'
import { expect, test } from 'vitest'
import type { AttemptPlan } from '../../src/proxy/backends/attempt-plan.ts'
import { BackendPool, type PoolChoice, poolRoute } from '../support/proxy/backend-pool.ts'
import { type Call, CoolingModel, type Outcome } from '../support/proxy/cooling-model.ts'
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

interface PlannedCall extends Call {
  readonly plan: AttemptPlan<PoolChoice>
}

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

test('whatever fails, dies or comes late, all workers cool, probe and choose as one thread would that knows everything', () => {
  fc.assert(
    fc.property(fc.array(anyStep, { minLength: 20, maxLength: 200 }), fc.nat(), (steps, startMs) => {
      const pool = new BackendPool(BACKENDS.join(' '), WORKERS)
      const model = new CoolingModel()
      pool.nowMs = model.nowMs = startMs
      let calls: PlannedCall[] = []
      let before = KEYS.map(() => 0)

      const goOn = (call: PlannedCall): void => {
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
