import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { bucketRule, bundle, policy } from '../../support/bundles/bundles.ts'
import { HttpBackend } from '../../support/proxy/backend.ts'
import { proxyEnv, RawClient, statusesIn } from '../../support/proxy/proxy.ts'
import { type RedisServer, runningRedis } from '../../support/redis/redis-server.ts'
import { describeWithRedis } from '../../support/redis/redis-suite.ts'
import { countersIn } from '../../support/redis/stored-counters.ts'
import type { Cli } from '../../support/service/cli.ts'
import { ask } from '../../support/service/http.ts'
import { metricsOf } from '../../support/service/metrics.ts'
import { type Owner, running, scratchDirectory, serving } from '../../support/service/running.ts'
import { untilLogged } from '../../support/service/until-logged.ts'
import { decisionBytes, original } from '../../support/service/wire.ts'
import { until } from '../../support/until.ts'

const HALF_A_HEAD = 'GET / HTTP/1.1\r\nHost: a\r\n'
const BURST = 300

test('at shutdown a decision service closes silent connections while it waits for the rest of a question', async (t) => {
  const edge = await running({ bundle: bundle(1), env: { EDGE_ADMIN_PORT: '0' } }, t)
  const silent = RawClient.connect(edge.port, t)
  const asking = RawClient.connect(edge.port, t)
  const question = decisionBytes(original('/'))
  asking.send(question.subarray(0, 40))
  await untilConnected(edge.adminPort, 2)
  const stopped = edge.stop()
  await until(() => silent.isClosed)
  expect(asking.isClosed).toBe(false)
  asking.send(question.subarray(40))
  await stopped
  expect(statusesIn(await asking.closed())).toEqual([200])
})

describeWithRedis('at shutdown', () => {
  test('leases go back when all time was used up by an open stream and by clients of both ports', async (t) => {
    const redis = await runningRedis({}, t)
    const backend = await HttpBackend.start((req, res) => void (req.url === '/stream' ? res.write('first') : res.end('hello')), 0, t)
    const cli = await serveLeased(redis, backend, t)
    const admin = Number(/admin\s+http:\/\/127\.0\.0\.1:(\d+)/.exec(cli.stdout)![1])
    let used = 1
    for (let held = 0; held < 2; used++) {
      expect((await ask(cli.port, 'GET', '/')).status).toBe(200)
      const metrics = await metricsOf(admin)
      held = metrics.value('edge_redis_leased_tokens_total{what="leased"}') - metrics.value('edge_redis_answers_total{by="lease"}')
    }
    const stream = RawClient.connect(cli.port, t)
    stream.send('GET /stream HTTP/1.1\r\nHost: a\r\n\r\n')
    await stream.sees('first')
    for (const port of [cli.port, admin]) {
      RawClient.connect(port, t)
      RawClient.connect(port, t).send(HALF_A_HEAD)
    }
    await untilConnected(admin, 5)
    expect(await cli.stop()).toBe(0)
    // The open stream, the admin port, three calls to Redis, and what workers get on top.
    expect((await untilLogged(cli, 'stopping'))[0]).toMatchObject({ drain_ms: 0, up_to_ms: 2100 + 1500 + 3 * 1000 + 2000 })
    expect(stream.isClosed).toBe(true)
    expect(await levelIn(redis)).toBeCloseTo(BURST - used, 3)
  })
})

async function serveLeased(redis: RedisServer, backend: HttpBackend, t: Owner): Promise<Cli> {
  const path = join(await scratchDirectory(t), 'bundle.json')
  await writeFile(path, JSON.stringify(bundle(1, policy('p', { rules: [bucketRule('r', [], BURST, 1e-6)] }))))
  const leased = { EDGE_REDIS_URL: redis.url, EDGE_REDIS_MODE: 'leased', EDGE_REDIS_LEASE_MS: '60000', EDGE_REDIS_TIMEOUT_MS: '1000' }
  return serving({ ...proxyEnv(backend.url), ...leased, EDGE_CONFIG_FILE: path, EDGE_ADMIN_PORT: '0', EDGE_SHUTDOWN_MS: '2100' }, [], t)
}

/** That the server has accepted so many, beside the one that asks. */
async function untilConnected(port: number, count: number): Promise<void> {
  await until(async () => (await metricsOf(port)).value('edge_worker_connections{worker="1"}') >= count + 1)
}

async function levelIn(redis: RedisServer): Promise<number> {
  const [key] = await countersIn(redis)
  return Number(await redis.command('EVAL', "return tostring((struct.unpack('<d', redis.call('GET', KEYS[1]))))", 1, key!))
}
