import fc from 'fast-check'
import { expect, test } from 'vitest'
import { bundle } from '../bundles/bundles.ts'
import { HttpBackend } from '../proxy/backend.ts'
import { proxying } from '../proxy/proxy.ts'
import { linesOf, ownFields, policiesOf, requestOf } from '../random/policies-and-requests.ts'
import type { Edge } from '../service/edge.ts'
import { type Answer, ask } from '../service/http.ts'
import { ManualClock } from '../service/manual-clock.ts'
import { running } from '../service/running.ts'
import { ADMIN_ENV } from './admin-client.ts'
import { type ExplainBody, explained } from './explained.ts'

/** For so many random bundles, and so many random requests to each; with a seed, always the same. */
export function explainedRequestsSuite(bundles: number, requests: number, seed?: number): void {
  test('an explanation in decision_service foretells the response, and changes nothing', async () => {
    const clock = new ManualClock()
    const edge = await running({ bundle: bundle(1), clock, env: { ...ADMIN_ENV, EDGE_GATEWAY_HINTS: 'on' } })
    const respond = ({ method, uri, host, headers = {} }: ExplainBody): Promise<Answer> =>
      edge.decide({ method, uri, fields: linesOf(headers), ...(host !== undefined && { host }) })
    await expectForetold(edge, clock, respond, { bundles, requests, seed })
  })

  test('an explanation in reverse_proxy foretells the response, and changes nothing', async () => {
    const clock = new ManualClock()
    const backend = await HttpBackend.start()
    const edge = await proxying(backend, { clock, env: { ...ADMIN_ENV, EDGE_MAX_BODY_BYTES: '500' } })
    const host = `127.0.0.1:${edge.port}`
    // Without the field, the test itself would be the client.
    const nobody = [['X-Forwarded-For', 'nobody']] as const
    const respond = ({ method, uri, headers = {}, body }: ExplainBody): Promise<Answer> =>
      ask(edge.port, method, uri, [...linesOf(headers), ...(headers['x-forwarded-for'] === undefined ? nobody : [])], body)
    await expectForetold(edge, clock, respond, { bundles, requests, seed, given: { host } })
  })
}

interface Trial {
  readonly bundles: number
  readonly requests: number
  readonly seed: number | undefined
  /** What all requests have in common. */
  readonly given?: Partial<ExplainBody>
}

async function expectForetold(
  edge: Edge,
  clock: ManualClock,
  respond: (request: ExplainBody) => Promise<Answer>,
  { bundles, requests, seed, given = {} }: Trial,
): Promise<void> {
  let version = 1
  const actions = new Set<string>()
  await fc.assert(
    fc.asyncProperty(policiesOf(), fc.array(requestOf(), { minLength: requests, maxLength: requests }), async (policies, asked) => {
      await edge.publish(bundle(++version, ...policies))
      expect(edge.logged('bundle_refused')).toEqual([])
      for (const random of asked) {
        const request = { ...random, ...given }
        const first = await explained(edge.adminPort, request)
        expect(await explained(edge.adminPort, request)).toEqual(first)
        const response = await respond(request)
        const reason = first.action === 'allow' ? undefined : first.reason
        expect([first.status, reason, first.headers]).toEqual([
          response.status,
          response.headers['x-edge-reason'],
          ownFields(first, response),
        ])
        actions.add(first.action)
        clock.advance(700)
      }
    }),
    { numRuns: bundles, ...(seed !== undefined && { seed }) },
  )
  expect(actions.has('allow') && actions.size > 1).toBe(true)
}
