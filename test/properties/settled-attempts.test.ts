import fc from 'fast-check'
import { test } from 'vitest'
import { poolRoute } from '../support/proxy/backend-pool.ts'
import { type CallEnd, SettledAttempts } from '../support/routed/settled-attempts.ts'
import { runs, sized } from '../support/run/property-runs.ts'

const BACKENDS = ['a', 'b', 'open', 'f']
const ROUTES = [
  poolRoute('a*2 b', '', { attempts: 1 }),
  poolRoute('a open', 'f:n', { attempts: 2 }),
  poolRoute('a:n', 'b:dear f', { attempts: 2 }),
  poolRoute('b', '', { attempts: 2 }),
  poolRoute('open b:dear', 'a', { attempts: 0 }),
]

type Step =
  | { readonly do: 'wait'; readonly ms: number }
  | { readonly do: 'begin'; readonly route: number; readonly model: string; readonly promptTokens: number; readonly maxTokens: number }
  | { readonly do: 'end'; readonly which: number; readonly end: CallEnd; readonly used: number; readonly retryAfterS: number | undefined }

const anyStep: fc.Arbitrary<Step> = fc.oneof(
  { weight: 2, arbitrary: fc.record({ do: fc.constant('wait' as const), ms: fc.constantFrom(0, 1, 400, 1000, 5000, 60_000) }) },
  {
    weight: 5,
    arbitrary: fc.record({
      do: fc.constant('begin' as const),
      route: fc.nat(ROUTES.length - 1),
      model: fc.constantFrom('m', 'n'),
      promptTokens: fc.integer({ min: 1, max: 50 }),
      maxTokens: fc.integer({ min: 1, max: 100 }),
    }),
  },
  {
    weight: 7,
    arbitrary: fc.record({
      do: fc.constant('end' as const),
      which: fc.nat(50),
      end: fc.constantFrom<CallEnd[]>(200, 200, 404, 429, 429, 401, 500, 500, 500, 'break', 'break', 'half', 'left', 'left', 'left'),
      used: fc.nat(100),
      retryAfterS: fc.constantFrom(undefined, undefined, 1, 3, 30, 86_400),
    }),
  },
)

const begin: Step = { do: 'begin', route: 2, model: 'm', promptTokens: 3, maxTokens: 7 }
const endWith = (end: CallEnd): Step => ({ do: 'end', which: 0, end, used: 5, retryAfterS: undefined })
/** Three failures in a row let the backend cool; when that is over the next request is its probe, whose client leaves. */
const LEFT_PROBE = [
  ...Array(3)
    .fill([begin, endWith(500), endWith(200)])
    .flat(),
  { do: 'wait', ms: 1000 },
  begin,
  endWith('left'),
  begin,
]

test('each request is decided, reserved and settled once, whatever its attempts, as a model of cooling and prices says', async () => {
  await fc.assert(
    fc.asyncProperty(fc.array(anyStep, { minLength: 20, maxLength: sized(25, 40) }), async (steps) => {
      const settled = await SettledAttempts.start(BACKENDS, ROUTES)
      try {
        for (const step of steps) {
          if (step.do === 'wait') settled.wait(step.ms)
          else if (step.do === 'begin') await settled.begin(step.route, step.model, step.promptTokens, step.maxTokens)
          else if (settled.open.length > 0)
            await settled.end(settled.open[step.which % settled.open.length]!, step.end, step.used, step.retryAfterS)
        }
        // A client that leaves says nothing about a backend, so whatever it kept of one is seen by those who come next.
        while (settled.open.length > 0) await settled.end(settled.open[0]!, 'left', 0, undefined)
        await settled.check()
      } finally {
        await settled.stop()
      }
    }),
    { numRuns: 1 + runs(1), examples: [[LEFT_PROBE]] },
  )
})
