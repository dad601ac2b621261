import { expect, test } from 'vitest'
import { replaceFile } from '../../support/bundles/bundle-file.ts'
import type { RawBackend } from '../../support/proxy/backend.ts'
import { proxyEnv } from '../../support/proxy/proxy.ts'
import { get, inFlight, newBackend, type Reached, wait } from '../../support/redis/held-requests.ts'
import { redisOfSuite, runningRedis } from '../../support/redis/redis-server.ts'
import { describeWithRedis } from '../../support/redis/redis-suite.ts'
import { AMPLE_TIMEOUT, hasRedis, sharing } from '../../support/redis/sharing-edge.ts'
import { gateTo } from '../../support/redis/tcp-gate.ts'
import { metric } from '../../support/service/metrics.ts'
import { scratchDirectory, serving } from '../../support/service/running.ts'
import { until } from '../../support/until.ts'

/** Renewed after a quarter of it: a machine would have to stand still for the rest. */
const HOLD_SECONDS = 20
const AN_HOUR = 3600

describeWithRedis('requests in flight in proxies that share a Redis', () => {
  const shared = redisOfSuite()
  const proxy = (backend: RawBackend, rules: object, url = shared().url): Promise<Reached> =>
    sharing(url, { bundle: rules, env: proxyEnv(backend.url) })

  test('keep their places for longer than hold_seconds while they last', async () => {
    const [backend, rules] = [await newBackend(), inFlight(2, HOLD_SECONDS)]
    const [one, two] = [await proxy(backend, rules), await proxy(backend, rules)]
    const clients = [await wait(one, backend), await wait(one, backend)]
    await until(async () => {
      expect((await get(two)).status).toBe(429)
      return (await metric(one.port, 'edge_hold_renewals_total{result="renewed"}')) >= 12
    })
    clients[0]!.socket.destroy()
    await until(async () => (await get(two)).status === 200)
  })

  test('are limited by each instance alone while Redis is away, and by all again when it is back', async () => {
    const [backend, rules] = [await newBackend(), inFlight(2, HOLD_SECONDS)]
    const gate = await gateTo(shared().port)
    const [one, two] = [await proxy(backend, rules, `redis://${gate.address}`), await proxy(backend, rules)]
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
  })
})

describeWithRedis(
  'requests in flight',
  () => {
    test('of an instance that is killed end within hold_seconds', async () => {
      const [backend, rules] = [await newBackend(), inFlight(2, AN_HOUR)]
      const redis = await runningRedis({ hasSteppingClock: true })
      const path = `${await scratchDirectory()}/bundle.json`
      await replaceFile(path, JSON.stringify(rules))
      const killed = await serving({ ...proxyEnv(backend.url), EDGE_REDIS_URL: redis.url, ...AMPLE_TIMEOUT, EDGE_CONFIG_FILE: path })
      await until(() => hasRedis(killed))
      const other = await sharing(redis.url, { bundle: rules, env: proxyEnv(backend.url) })
      await wait(killed, backend)
      await wait(killed, backend)
      expect((await get(other)).status).toBe(429)
      killed.process.kill('SIGKILL')
      await killed.exited
      expect((await get(other)).status).toBe(429)
      redis.stepClock(1000 * AN_HOUR)
      await until(async () => (await get(other)).headers['ratelimit-remaining'] === '1')
    })
  },
  'libfaketime',
)
