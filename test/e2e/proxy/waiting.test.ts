import { join } from 'node:path'
import { describe, expect, test } from 'vitest'
import { ADMIN_ENV, askAdmin } from '../../support/admin/admin-client.ts'
import { Operator } from '../../support/admin/operator.ts'
import { bucketRule, bundle, concurrencyRule, llmRule, policy } from '../../support/bundles/bundles.ts'
import { HttpBackend } from '../../support/proxy/backend.ts'
import { proxying, proxyOptions, RawClient, statusesIn, valuesOf } from '../../support/proxy/proxy.ts'
import { written } from '../../support/service/decision-log-file.ts'
import { Edge, type EdgeOptions } from '../../support/service/edge.ts'
import { metric } from '../../support/service/metrics.ts'
import { scratchDirectory } from '../../support/service/running.ts'
import { untilLogged } from '../../support/service/until-logged.ts'
import { until } from '../../support/until.ts'

/** Longer than any test. */
const LONG_S = 60
const KEY = 'header:x-k'
const waiting = (rule: object, seconds = LONG_S): object => ({ ...rule, wait_seconds: seconds })
const ONE_IN_FLIGHT = waiting(concurrencyRule('r', [KEY], 1))
const BUNDLE = bundle(1, policy('p', { rules: [ONE_IN_FLIGHT] }))
const WAITS = (outcome: string): string => `edge_waits_total{policy="p",rule="r",outcome="${outcome}"}`

const get = (path: string, key = 'alice'): string => `GET ${path} HTTP/1.1\r\nHost: a\r\nX-K: ${key}\r\n\r\n`
const post = (path: string, body: string, length = body.length): string =>
  `POST ${path} HTTP/1.1\r\nHost: a\r\nX-K: alice\r\nContent-Type: application/json\r\nContent-Length: ${length}\r\n\r\n${body}`

/** A backend that answers with the path, and with the body of a POST, when the test says so. */
async function heldBackend(): Promise<{ backend: HttpBackend; paths: () => string[]; release: (path: string) => Promise<void> }> {
  const held = new Map<string, () => void>()
  const backend = await HttpBackend.start(async (req, res, seen) => {
    const body = await seen.body().catch(() => '')
    held.set(req.url!, () => void res.end(`${req.url} ${body}`))
  })
  const release = async (path: string): Promise<void> => {
    await until(() => held.has(path))
    held.get(path)!()
  }
  return { backend, paths: () => backend.seen.map(({ url }) => url), release }
}

/** A proxy whose one place alice's first request holds. */
async function heldProxy(options: EdgeOptions = {}) {
  const { backend, paths, release } = await heldBackend()
  const edge = await proxying(backend, { bundle: BUNDLE, ...options, env: { EDGE_WORKERS: '1', ...ADMIN_ENV, ...options.env } })
  const value = (series: string): Promise<number> => metric(edge.adminPort, series)
  const asks = (bytes: string): RawClient => {
    const client = RawClient.connect(edge.port)
    client.send(bytes)
    return client
  }
  const first = asks(get('/first'))
  await until(() => backend.seen.length === 1)
  const areWaiting = (count: number): Promise<void> => until(async () => (await value('edge_waiting_requests')) === count)
  return { edge, backend, paths, release, value, asks, first, areWaiting }
}

describe('a request that waits', () => {
  test('is sent when the one before it has ended, in order, and is one decision in all counts', async () => {
    const { paths, release, value, asks, first, areWaiting } = await heldProxy()
    const clients: RawClient[] = []
    for (const i of [1, 2, 3]) {
      clients.push(asks(get(`/${i}`)))
      await areWaiting(i)
    }
    await release('/first')
    await first.sees('/first')
    for (const [i, client] of clients.entries()) {
      await release(`/${i + 1}`)
      expect((await client.next()).body).toBe(`/${i + 1} `)
    }
    expect(paths()).toEqual(['/first', '/1', '/2', '/3'])
    expect(await value('edge_questions_total{door="proxy",outcome="allow"}')).toBe(4)
    expect(await value('edge_decision_duration_seconds_count')).toBe(4)
    expect([await value('edge_questions_total{door="proxy",outcome="reject"}'), await value('edge_waiting_requests')]).toEqual([0, 0])
    expect([await value(WAITS('allowed')), await value('edge_wait_seconds_count')]).toEqual([3, 3])
  })

  test('is forgotten when its client leaves, and nothing is decided', async () => {
    const { paths, release, value, asks, first, areWaiting } = await heldProxy()
    const leaver = asks(get('/leaver'))
    await areWaiting(1)
    const stayer = asks(get('/stayer'))
    await areWaiting(2)
    leaver.socket.resetAndDestroy()
    await areWaiting(1)
    await release('/first')
    await release('/stayer')
    await Promise.all([first.next(), stayer.next()])
    expect([paths(), await value(WAITS('client_gone'))]).toEqual([['/first', '/stayer'], 1])
    expect(await value('edge_questions_total{door="proxy",outcome="allow"}')).toBe(2)
  })

  test('of a client that has half-closed is answered, and one that is gone is found out', async () => {
    const { paths, release, value, asks, areWaiting } = await heldProxy()
    const half = asks(get('/half'))
    await areWaiting(1)
    half.socket.end()
    const gone = asks(get('/gone'))
    await areWaiting(2)
    gone.socket.destroy()
    await until(async () => (await value(WAITS('client_gone'))) === 1)
    await release('/first')
    await release('/half')
    expect(statusesIn(await half.closed()).filter((status) => status >= 200)).toEqual([200])
    expect(paths()).toEqual(['/first', '/half'])
  })

  test('of a client that is gone is found out even if it is the first in line, which is decided again every 50 ms', async () => {
    const { paths, release, value, asks, areWaiting } = await heldProxy()
    const gone = asks(get('/gone'))
    await areWaiting(1)
    gone.socket.destroy()
    await until(async () => (await value(WAITS('client_gone'))) === 1)
    const next = asks(get('/next'))
    await areWaiting(1)
    await release('/first')
    await release('/next')
    expect([(await next.next()).status, paths()]).toEqual([200, ['/first', '/next']])
  })

  test('holds back what is pipelined after it', async () => {
    const { paths, release, asks, areWaiting } = await heldProxy()
    const client = asks(`${get('/1')}${get('/2', 'bob')}`)
    await areWaiting(1)
    // Bob's request would pass at once, but answers come in the order of requests.
    expect(paths()).toEqual(['/first'])
    await release('/first')
    await release('/1')
    await release('/2')
    expect([(await client.next()).body, (await client.next()).body]).toEqual(['/1 ', '/2 '])
  })

  test('gets 429 when the proxy stops', async () => {
    const { backend } = await heldBackend()
    const edge = await Edge.start(proxyOptions(backend, { bundle: BUNDLE, env: { EDGE_SHUTDOWN_MS: '600000', ...ADMIN_ENV } }))
    const first = RawClient.connect(edge.port)
    first.send(get('/first'))
    await until(() => backend.seen.length === 1)
    const client = RawClient.connect(edge.port)
    client.send(get('/2'))
    await until(async () => (await metric(edge.adminPort, 'edge_waiting_requests')) === 1)
    const stopped = edge.stop()
    const answer = await client.next()
    expect([answer.status, valuesOf(answer, 'X-Edge-Reason'), valuesOf(answer, 'Connection')]).toEqual([
      429,
      ['concurrency_exceeded'],
      ['close'],
    ])
    first.socket.destroy()
    await stopped
    expect(backend.seen.length).toBe(1)
  })

  test('waits before its body is read, which may come slowly after that', async () => {
    const { backend, release, asks, areWaiting } = await heldProxy()
    const client = asks(post('/slow', '', 6))
    await areWaiting(1)
    client.send('abc')
    await release('/first')
    await until(() => backend.seen.length === 2)
    client.send('def')
    await release('/slow')
    expect((await client.next()).body).toBe('/slow abcdef')
  })

  test('with a body that can never be complete is refused', async () => {
    const { value, asks, areWaiting, paths } = await heldProxy()
    const client = asks(post('/half', 'abc', 6))
    await areWaiting(1)
    client.socket.end()
    await areWaiting(0)
    await client.closed()
    expect([paths(), await value(WAITS('client_gone'))]).toEqual([['/first'], 1])
  })
})

test('a request that waits is one line in the decision log, and one rejection at most in top, log and metrics', async () => {
  const path = join(await scratchDirectory(), 'decisions.log')
  const forCaller = (rule: object, name: string, key: string): object => ({ ...rule, name, match: { [KEY]: key } })
  const rules = [forCaller(ONE_IN_FLIGHT, 'long', 'alice'), forCaller(waiting(concurrencyRule('r', [KEY], 1), 0.2), 'short', 'bob')]
  const { edge, backend, release, asks, areWaiting, value } = await heldProxy({
    bundle: bundle(1, policy('p', { rules })),
    env: { EDGE_DECISION_LOG: path },
  })
  asks(get('/bob', 'bob'))
  await until(() => backend.seen.length === 2)
  // Each of the two is decided many times while it waits.
  const rejected = await asks(get('/rejected', 'bob')).next()
  const allowed = asks(get('/allowed'))
  await areWaiting(1)
  await release('/first')
  await release('/allowed')
  expect([rejected.status, (await allowed.next()).status]).toEqual([429, 200])
  const lines = await written(path, 4)
  expect(lines.map(({ uri }) => uri).sort()).toEqual(['/allowed', '/bob', '/first', '/rejected'])
  expect((await askAdmin(edge.adminPort, 'GET', 'top')).json.rejected).toMatchObject([
    { rule: 'short', values: { [KEY]: 'bob' }, count: 1 },
  ])
  expect(await untilLogged(edge, 'reject')).toMatchObject([{ rule: 'short' }])
  expect(await value('edge_rejects_total{policy="p",rule="short",reason="concurrency_exceeded"}')).toBe(1)
  expect(await value('edge_questions_total{door="proxy",outcome="reject"}')).toBe(1)
})

describe('while a request waits', () => {
  test('another bundle decides it', async () => {
    const { edge, release, asks, areWaiting, value } = await heldProxy()
    const client = asks(get('/2'))
    await areWaiting(1)
    await edge.publish(bundle(2, policy('p', { rules: [bucketRule('r', [KEY], 100)] })))
    await release('/2')
    const answer = await client.next()
    expect([answer.status, valuesOf(answer, 'RateLimit-Limit'), await value(WAITS('allowed'))]).toEqual([200, ['100'], 1])
  })

  test.each([
    ['blocks', { block: true }, 403],
    ['lifts the limit', { unlimited: true }, 200],
  ])('an override that %s comes into force for it', async (_, change, status) => {
    const { edge, release, asks, areWaiting } = await heldProxy()
    const client = asks(get('/2'))
    await areWaiting(1)
    await new Operator(edge.adminPort).override({ policy: 'p', rule: 'r', values: { [KEY]: 'alice' }, ...change })
    if (status === 200) await release('/2')
    expect((await client.next()).status).toBe(status)
  })

  test('others of its caller wait behind it, and those of another do not', async () => {
    const { asks, areWaiting, release } = await heldProxy()
    asks(get('/2'))
    await areWaiting(1)
    const bob = asks(get('/bob', 'bob'))
    await release('/bob')
    expect((await bob.next()).status).toBe(200)
  })
})

describe('a request whose body a rule needs', () => {
  const RULES = [ONE_IN_FLIGHT, { ...llmRule('tokens', [KEY], { tokens_per_day: 1_000_000 }) }]
  const BODY = JSON.stringify({ model: 'm', messages: [{ role: 'user', content: 'hello' }], max_tokens: 5 })

  test('waits before its body is read, lets others pass while it comes slowly, and then waits with it', async () => {
    const { release, asks, areWaiting, backend, paths, value } = await heldProxy({ bundle: bundle(1, policy('p', { rules: RULES })) })
    const slow = asks(post('/v1/chat/completions', '', BODY.length))
    await areWaiting(1)
    await release('/first')
    // Memory for its body is claimed when the body is read, which is after its first wait.
    await until(async () => (await value('edge_proxy_body_memory_bytes')) > 0)
    const third = asks(get('/third'))
    await until(() => backend.seen.length === 2)
    slow.send(BODY)
    const last = asks(get('/last'))
    await areWaiting(2)
    await release('/third')
    expect((await third.next()).status).toBe(200)
    await release('/v1/chat/completions')
    expect((await slow.next()).body).toBe(`/v1/chat/completions ${BODY}`)
    await release('/last')
    expect((await last.next()).status).toBe(200)
    expect(paths()).toEqual(['/first', '/third', '/v1/chat/completions', '/last'])
    expect([await value('edge_proxy_body_memory_bytes'), await value(WAITS('allowed'))]).toEqual([0, 2])
  })

  test('gives its memory back when its client leaves', async () => {
    const byModel = policy('p', { rules: [waiting(concurrencyRule('r', ['llm:model'], 1))] })
    const { asks, areWaiting, backend, value } = await heldProxy({ bundle: bundle(1, byModel) })
    const chat = post('/v1/chat/completions', BODY)
    asks(chat)
    await until(() => backend.seen.length === 2)
    const leaver = asks(chat)
    await areWaiting(1)
    await until(async () => (await value('edge_proxy_body_memory_bytes')) > 0)
    leaver.socket.resetAndDestroy()
    await areWaiting(0)
    // The body of the one that is in flight has been sent on.
    expect([await value('edge_proxy_body_memory_bytes'), await value(WAITS('client_gone'))]).toEqual([0, 1])
  })

  test('that is not what it says is refused as usual after the wait', async () => {
    const { asks, areWaiting, release, value } = await heldProxy({ bundle: bundle(1, policy('p', { rules: RULES })) })
    const twice = '{"model":"a","model":"b","messages":[]}'
    const client = asks(post('/v1/chat/completions', twice))
    await areWaiting(1)
    await release('/first')
    const { status } = await client.next()
    expect([status, await value(WAITS(status === 200 ? 'allowed' : 'refused'))]).toEqual([400, 1])
  })
})

describe('there are places', () => {
  test('for 100 requests of one caller, and the next gets 429 at once', async () => {
    const { asks, areWaiting, value } = await heldProxy()
    for (let i = 0; i < 100; i++) asks(get(`/${i}`))
    await areWaiting(100)
    const answer = await asks(get('/more')).next()
    expect([answer.status, valuesOf(answer, 'Retry-After'), await value(WAITS('full'))]).toEqual([429, ['1'], 1])
  })

  test('for EDGE_MAX_WAITING requests in a worker', async () => {
    const { asks, areWaiting, backend } = await heldProxy({ env: { EDGE_MAX_WAITING: '2' } })
    asks(get('/bob', 'bob'))
    await until(() => backend.seen.length === 2)
    asks(get('/2'))
    await areWaiting(1)
    asks(get('/bob2', 'bob'))
    await areWaiting(2)
    expect((await asks(get('/3', 'bob')).next()).status).toBe(429)
  })

  test('for bodies in a quarter of EDGE_BODY_MEMORY', async () => {
    const rule = waiting(concurrencyRule('r', ['llm:model'], 1))
    const env = { EDGE_MAX_BODY_BYTES: '64k', EDGE_BODY_MEMORY: '1m', EDGE_WORKERS: '1' }
    const { backend, release } = await heldBackend()
    const edge = await proxying(backend, { bundle: bundle(1, policy('p', { rules: [rule] })), env: { ...ADMIN_ENV, ...env } })
    const value = (series: string): Promise<number> => metric(edge.adminPort, series)
    const body = JSON.stringify({ model: 'm', messages: [{ role: 'user', content: 'x'.repeat(60_000) }] })
    const asks = (path: string): RawClient => {
      const client = RawClient.connect(edge.port)
      // Each comes from an address of its own, so that only the memory of all is short.
      client.send(post(`/v1/${path}`, body).replace('X-K: alice', `X-Forwarded-For: 198.51.100.${path.length}`))
      return client
    }
    const first = asks('a')
    await until(() => backend.seen.length === 1)
    const clients: RawClient[] = []
    for (let i = 2; i <= 5; i++) {
      clients.push(asks('a'.repeat(i)))
      await until(async () => (await value('edge_waiting_requests')) === i - 1)
    }
    expect((await asks('aaaaaa').next()).status).toBe(429)
    await release('/v1/a')
    await first.next()
    for (const [i, client] of clients.entries()) {
      await release(`/v1/${'a'.repeat(i + 2)}`)
      expect((await client.next()).body).toBe(`/v1/${'a'.repeat(i + 2)} ${body}`)
    }
    expect([await value('edge_waiting_requests'), await value('edge_proxy_body_memory_bytes')]).toEqual([0, 0])
  })
})
