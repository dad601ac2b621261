import fc from 'fast-check'
import { expect, test } from 'vitest'
import type { Usage } from '../../../src/costs/cost.ts'
import { tokenCounts } from '../../../src/llm/usage.ts'
import type { SimulatedRequest } from '../../../src/offline/simulation/simulated-doors.ts'
import type { SimulationOptions } from '../../../src/offline/simulation/simulation.ts'
import type { ExplainBody } from '../admin/explained.ts'
import { bundle, type PolicyText } from '../bundles/bundles.ts'
import { HttpBackend } from '../proxy/backend.ts'
import { proxying } from '../proxy/proxy.ts'
import { linesOf, ownFields, policiesOf, requestOf } from '../random/policies-and-requests.ts'
import type { Edge } from '../service/edge.ts'
import { type Answer, ask } from '../service/http.ts'
import { ManualClock } from '../service/manual-clock.ts'
import { running } from '../service/running.ts'
import { simulating } from './simulating.ts'

const USED = { prompt_tokens: 3, completion_tokens: 4 }

/** For so many random bundles, and so many random requests to each; with a seed, always the same. */
export function simulatedRequestsSuite(bundles: number, requests: number, seed?: number): void {
  test('a simulation of decision_service responds as the server does', async () => {
    const clock = new ManualClock()
    const edge = await running({ bundle: bundle(1), clock, env: { EDGE_GATEWAY_HINTS: 'on' } })
    const respond = ({ method, uri, host, headers = {} }: ExplainBody): Promise<Answer> =>
      edge.decide({ method, uri, fields: linesOf(headers), ...(host !== undefined && { host }) })
    await expectAgreement(edge, clock, respond, { bundles, requests, seed, options: { hasHints: true } })
  })

  test('a simulation of reverse_proxy responds as the proxy does, and settles as it does', async () => {
    const clock = new ManualClock()
    const backend = await HttpBackend.start(async (_req, res, seen) => {
      await seen.body()
      res.setHeader('content-type', 'application/json').end(JSON.stringify({ choices: [], usage: USED }))
    })
    const edge = await proxying(backend, { clock, env: { EDGE_MAX_BODY_BYTES: '500' } })
    const given = { host: `127.0.0.1:${edge.port}` }
    // Without the field, the test itself would be the client.
    const nobody = [['X-Forwarded-For', 'nobody']] as const
    const respond = ({ method, uri, headers = {}, body }: ExplainBody): Promise<Answer> =>
      ask(edge.port, method, uri, [...linesOf(headers), ...(headers['x-forwarded-for'] === undefined ? nobody : [])], body)
    const usage = { tokens: tokenCounts(USED.prompt_tokens, USED.completion_tokens), isStreamed: false }
    const options = { mode: 'reverse_proxy', maxBodyBytes: 500 } as const
    await expectAgreement(edge, clock, respond, { bundles, requests, seed, given, usage, options })
  })
}

interface Trial {
  readonly bundles: number
  readonly requests: number
  readonly seed: number | undefined
  readonly options: Partial<SimulationOptions>
  /** What the backend says that each has used. */
  readonly usage?: Usage
  /** What all requests have in common. */
  readonly given?: Partial<ExplainBody>
}

async function expectAgreement(
  edge: Edge,
  clock: ManualClock,
  respond: (request: ExplainBody) => Promise<Answer>,
  { bundles, requests, seed, options, usage, given = {} }: Trial,
): Promise<void> {
  let version = 1
  const statuses = new Set<number>()
  const asked = fc.array(fc.tuple(requestOf(), fc.constantFrom(0, 1, 700, 60_000)), { minLength: requests, maxLength: requests })
  await fc.assert(
    fc.asyncProperty(policiesOf(), asked, async (policies, all) => {
      // The server keeps the counters of policies that it knows by their names.
      const fresh = bundle(++version, ...policies.map(({ id, spec }): PolicyText => ({ id: `${id}-${version}`, spec })))
      await edge.publish(fresh)
      expect(edge.logged('bundle_refused')).toEqual([])
      const simulation = simulating(fresh, { ...options, startMs: clock.wallMs() })
      for (const [random, pauseMs] of all) {
        // At least a millisecond: what is in flight in the simulation has ended in the server by then.
        clock.advance(pauseMs + 1)
        const request = { ...random, ...given }
        const response = await simulation.decide(simulatedRequest(request, usage), clock.wallMs())
        const headers = recordOf(response.headers)
        const real = await respond(request)
        const reason = response.answer.decision?.action === 'allow' ? undefined : response.reason
        expect([response.status, reason, headers]).toEqual([real.status, real.headers['x-edge-reason'], ownFields({ headers }, real)])
        statuses.add(real.status)
      }
    }),
    { numRuns: bundles, ...(seed !== undefined && { seed }) },
  )
  expect(statuses.has(200) && statuses.size > 1).toBe(true)
}

function simulatedRequest({ method, uri, host, headers = {}, body }: ExplainBody, usage: Usage | undefined): SimulatedRequest {
  return { method, uri, host, fields: linesOf(headers).flat(), body, usage }
}

function recordOf(headers: readonly string[]): Record<string, string> {
  return Object.fromEntries(Array.from({ length: headers.length / 2 }, (_, i) => [headers[2 * i]!, headers[2 * i + 1]!]))
}
