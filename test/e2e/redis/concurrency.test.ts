import { beforeAll, expect, test } from 'vitest'
import { replaceFile } from '../../support/bundles/bundle-file.ts'
import { bundle, concurrencyRule, policy } from '../../support/bundles/bundles.ts'
import { RawBackend } from '../../support/proxy/backend.ts'
import { proxyEnv, RawClient } from '../../support/proxy/proxy.ts'
import { type RedisServer, runningRedis } from '../../support/redis/redis-server.ts'
import { describeWithRedis } from '../../support/redis/redis-suite.ts'
import { sharing } from '../../support/redis/sharing-edge.ts'
import { gateTo } from '../../support/redis/tcp-gate.ts'
import { ask } from '../../support/service/http.ts'
import { metric, metricsOf } from '../../support/service/metrics.ts'
import { scratchDirectory, serving, thisTest } from '../../support/service/running.ts'
import { thisSuite } from '../../support/service/suite-owner.ts'
import { until } from '../../support/until.ts'

const OK = 'HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok'
const AN_HOUR = 3600

interface Proxy {
  readonly port: number
}

describeWithRedis('requests in flight in proxies that share a Redis', () => {
  const suite = thisSuite()
  let redis: RedisServer
  let bundles = 0

  beforeAll(async () => {
    redis = await runningRedis({}, suite)
  })

  /** With counters of its own. */
  const newBundle = (max: number, holdSeconds: number, mode = 'enforce'): object =>
    bundle(1, policy(`p${bundles++}`, { mode, rules: [concurrencyRule('r', [], max, holdSeconds)] }))
  const proxy = (backend: RawBackend, rules: object, env = {}, url = redis.url): Promise<Proxy> =>
    sharing(url, { bundle: rules, env: { ...proxyEnv(backend.url), ...env } })

  test('are one number, and one that ends at either makes room at both', async () => {
    const [backend, rules] = [await newBackend(), newBundle(5, AN_HOUR)]
    const [one, two] = [await proxy(backend, rules), await proxy(backend, rules, { EDGE_REDIS_MODE: 'leased' })]
    const clients: RawClient[] = []
    for (const each of [one, two, one, two, one]) clients.push(await wait(each, backend))
    for (const each of [one, two]) {
      expect(await get(each)).toMatchObject({ status: 429, headers: { 'x-edge-reason': 'concurrency_exceeded', 'retry-after': '1' } })
    }
    clients[1]!.socket.destroy()
    await until(async () => (await get(one)).status === 200)
    clients.push(await wait(one, backend))
    expect((await get(two)).status).toBe(429)
    for (const client of clients) client.socket.destroy()
    await until(async () => (await get(two)).headers['ratelimit-remaining'] === '4')
  })

  test('keep their places for longer than hold_seconds while they last', async () => {
    const [backend, rules] = [await newBackend(), newBundle(2, 1)]
    const [one, two] = [await proxy(backend, rules), await proxy(backend, rules)]
    const clients = [await wait(one, backend), await wait(one, backend)]
    await until(async () => {
      expect((await get(two)).status).toBe(429)
      return (await metric(one.port, 'edge_hold_renewals_total{result="renewed"}')) >= 12
    })
    clients[0]!.socket.destroy()
    await until(async () => (await get(two)).status === 200)
  }, 30_000)

  test('of an instance that is killed end within hold_seconds', async () => {
    const [backend, rules] = [await newBackend(), newBundle(2, 1)]
    const path = `${await scratchDirectory(thisTest)}/bundle.json`
    await replaceFile(path, JSON.stringify(rules))
    const killed = await serving({ ...proxyEnv(backend.url), EDGE_REDIS_URL: redis.url, EDGE_CONFIG_FILE: path, EDGE_WORKERS: '1' })
    const other = await proxy(backend, rules)
    await wait(killed, backend)
    await wait(killed, backend)
    expect((await get(other)).status).toBe(429)
    killed.process.kill('SIGKILL')
    await killed.exited
    await until(async () => (await get(other)).headers['ratelimit-remaining'] === '1')
  }, 30_000)

  test('whose client goes while Redis is asked are released when it has replied', async () => {
    const [backend, rules] = [await newBackend(), newBundle(2, AN_HOUR)]
    const gate = await gateTo(redis.port)
    const [one, two] = [await proxy(backend, rules, {}, `redis://${gate.address}`), await proxy(backend, rules)]
    await until(async () => (await get(one)).status === 200)
    gate.hold('answers')
    const client = RawClient.connect(one.port)
    client.send('GET /wait HTTP/1.1\r\nHost: a\r\n\r\n')
    await until(async () => (await get(two)).headers['ratelimit-remaining'] === '0')
    client.socket.resetAndDestroy()
    // All that is left is the connection on which this is asked.
    await until(async () => (await metricsOf(one.port)).connections.join() === '1')
    gate.release()
    await until(async () => (await get(two)).headers['ratelimit-remaining'] === '1')
    expect(backend.received).not.toContain('/wait')
    expect(await metric(one.port, 'edge_proxy_open_holds')).toBe(0)
  })

  test('are limited by each instance alone while Redis is away, and by all again when it is back', async () => {
    const [backend, rules] = [await newBackend(), newBundle(2, 1)]
    const gate = await gateTo(redis.port)
    const env = { EDGE_REDIS_TIMEOUT_MS: '200' }
    const [one, two] = [await proxy(backend, rules, env, `redis://${gate.address}`), await proxy(backend, rules)]
    await wait(one, backend)
    gate.refuse()
    gate.cut()
    await until(async () => {
      await get(one)
      return (await metric(one.port, 'edge_redis_answers_total{by="failure_mode"}')) > 0
    })
    const client = await wait(one, backend)
    expect((await get(one)).status).toBe(429)
    // For the others both have ended by now, or never began.
    await until(async () => (await get(two)).headers['ratelimit-remaining'] === '1')
    await gate.accept()
    await until(async () => (await get(two)).status === 429)
    client.socket.destroy()
    await until(async () => (await get(two)).headers['ratelimit-remaining'] === '0')
    await until(async () => (await get(one)).status === 200)
  }, 30_000)

  test('of a shadow policy change no response, and are freed as well', async () => {
    const [backend, rules] = [await newBackend(), newBundle(1, AN_HOUR, 'shadow')]
    const [one, two] = [await proxy(backend, rules), await proxy(backend, rules)]
    const client = await wait(one, backend)
    expect((await get(two)).status).toBe(200)
    const wouldReject = async () =>
      await metric(two.port, `edge_would_reject_total{policy="p${bundles - 1}",rule="r",reason="concurrency_exceeded"}`)
    expect(await wouldReject()).toBe(1)
    client.socket.destroy()
    await until(async () => {
      const before = await wouldReject()
      await get(two)
      return (await wouldReject()) === before
    })
  })
})

function get({ port }: Proxy): ReturnType<typeof ask> {
  return ask(port, 'GET', '/')
}

/** A request that the backend has, and does not respond to. */
async function wait({ port }: Proxy, backend: RawBackend): Promise<RawClient> {
  const heads = backend.heads
  const client = RawClient.connect(port)
  client.send('GET /wait HTTP/1.1\r\nHost: a\r\n\r\n')
  await until(() => backend.heads === heads + 1)
  return client
}

function newBackend(): Promise<RawBackend> {
  return RawBackend.start(({ socket, received }) => {
    const [, path] = [...received.matchAll(/GET (\/\S*) /g)].at(-1)!
    if (path === '/') socket.write(OK)
  })
}
