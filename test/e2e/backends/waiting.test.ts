import { describe, expect, test } from 'vitest'
import { ADMIN_ENV } from '../../support/admin/admin-client.ts'
import { concurrencyRule, policy } from '../../support/bundles/bundles.ts'
import { HttpBackend } from '../../support/proxy/backend.ts'
import { named, routedBundle, routing, saying } from '../../support/proxy/routed.ts'
import { metric } from '../../support/service/metrics.ts'
import { until } from '../../support/until.ts'

const POLICIES = [policy('p', { rules: [{ ...concurrencyRule('r', [], 1), wait_seconds: 60 }] })]
const BY_MODEL = (name: string): Readonly<Record<string, unknown>> => ({
  match: { 'llm:model': '*' },
  backends: [{ name, model: `of-${name}` }],
})
const chat = (port: number, path: string): Promise<Response> =>
  fetch(`http://127.0.0.1:${port}${path}/v1/chat/completions`, {
    method: 'POST',
    headers: { 'Content-Type': 'application/json' },
    body: '{"model":"m", "messages":[]}',
  })

/** A backend that answers `/first` when the test says so. */
async function holdingFirst(): Promise<{ readonly backend: HttpBackend; readonly release: () => void; readonly isHeld: () => boolean }> {
  let release: (() => void) | undefined
  const backend = await HttpBackend.start(async (req, res, { body }) => {
    const text = String(await body())
    if (req.url!.startsWith('/first')) release = () => void res.end('first')
    else res.end(text)
  })
  return { backend, release: () => release!(), isHeld: () => release !== undefined }
}

describe('a routed request that waits for a rule', () => {
  test('goes where the routes of the bundle lead that is active when it passes', async () => {
    const { backend: a, release, isHeld } = await holdingFirst()
    const b = await HttpBackend.start(async (_req, res, { body }) => void res.end(`b got ${await body()}`))
    const edge = await routing({ a, b }, [BY_MODEL('a')], { policies: POLICIES, env: ADMIN_ENV })
    const first = chat(edge.port, '/first')
    await until(isHeld)
    const second = chat(edge.port, '/second')
    await until(async () => (await metric(edge.adminPort, 'edge_waiting_requests')) === 1)
    await edge.publish(routedBundle(2, { a, b }, [BY_MODEL('b')], {}, POLICIES))
    release()
    expect(await (await first).text()).toBe('first')
    expect(await (await second).text()).toBe('b got {"model":"of-b", "messages":[]}')
    expect([a.seen.length, b.seen.length]).toEqual([1, 1])
  })

  test('is tried elsewhere like any other, and holds one place whatever number of attempts it takes', async () => {
    const { backend: a, release, isHeld } = await holdingFirst()
    const [down, b] = [await HttpBackend.start(saying('down', 503)), await named('b')]
    const retry = { on: ['5xx'], attempts: 1 }
    const routes = [
      { selector: { pathPrefix: '/first' }, backends: [{ name: 'a' }] },
      { match: { 'llm:model': '*' }, backends: [{ name: 'down' }], fallback: [{ name: 'b' }], retry },
    ]
    const edge = await routing({ a, b, down }, routes, { policies: POLICIES, env: ADMIN_ENV })
    const first = chat(edge.port, '/first')
    await until(isHeld)
    const others = [chat(edge.port, '/second'), chat(edge.port, '/third')]
    await until(async () => (await metric(edge.adminPort, 'edge_waiting_requests')) === 2)
    release()
    await first
    for (const other of others) expect(await (await other).text()).toBe('b')
    expect([down.seen.length, b.seen.length]).toEqual([2, 2])
    await until(async () => (await metric(edge.adminPort, 'edge_proxy_open_holds')) === 0)
    expect(await metric(edge.adminPort, 'edge_questions_total{door="proxy",outcome="allow"}')).toBe(3)
  })
})
