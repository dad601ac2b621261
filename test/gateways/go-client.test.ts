import { join } from 'node:path'
import { describe, expect, test } from 'vitest'
import { replaceFile } from '../support/bundles/bundle-file.ts'
import { bucketRule, bundle, policy } from '../support/bundles/bundles.ts'
import { describeWith } from '../support/describe-with.ts'
import { GoClient, missingGoClient } from '../support/grpc/go-client.ts'
import { fieldsIn } from '../support/grpc/proto-fields.ts'
import { scratchDirectory, serving } from '../support/service/running.ts'
import { until } from '../support/until.ts'

const BURST = 50
const RULES = bundle(
  1,
  policy('p', { rules: [bucketRule('each', ['header:x-key'], BURST, 0.001)] }),
  policy('d', { selector: { domain: 'apis' }, rules: [bucketRule('user', ['descriptor:user'], BURST, 0.001)] }),
)

function checkOf(key: string): object {
  const http = { method: 'GET', path: '/a?b=c', host: 'a.example', headers: { 'x-key': key }, body: 'x'.repeat(10_000) }
  return { attributes: { source: { address: { socketAddress: { address: '192.0.2.1', portValue: 1 } } }, request: { http } } }
}

function rateLimitOf(user: string): object {
  return { domain: 'apis', descriptors: [{ entries: [{ key: 'user', value: user }] }] }
}

describeWith(missingGoClient, "calls by grpc-go with the code that Envoy's project generates", () => {
  describe.each(['port', 'socket'])('on a %s', (kind) => {
    async function client(): Promise<GoClient> {
      const directory = await scratchDirectory()
      const [config, socket] = [join(directory, 'bundle.json'), join(directory, 'grpc.sock')]
      await replaceFile(config, JSON.stringify(RULES))
      const listener = kind === 'port' ? { EDGE_GRPC_PORT: '0' } : { EDGE_GRPC_SOCKET: socket }
      const edge = await serving({ ...listener, EDGE_WORKERS: '2', EDGE_CONFIG_FILE: config })
      const target = kind === 'port' ? /gRPC\s+\S*?(127\.0\.0\.1:\d+)/.exec(edge.stdout)![1]! : `unix:${socket}`
      return new GoClient(target)
    }

    test('exactly the burst passes of many calls at once', async () => {
      const go = await client()
      const checks = Array.from({ length: 3 * BURST }, () => go.start('Check', checkOf('a')))
      const limits = Array.from({ length: 3 * BURST }, () => go.start('ShouldRateLimit', rateLimitOf('b')))
      await until(() => [...checks, ...limits].every(({ code }) => code === 0))
      const checked = checks.map(({ messages }) => messages[0] as { status: { code?: number }; deniedResponse?: object })
      expect(checked.filter(({ status }) => status.code === undefined)).toHaveLength(BURST)
      const denied = checked.filter(({ status }) => status.code === 8)
      expect(denied).toHaveLength(2 * BURST)
      expect(denied[0]).toMatchObject({
        deniedResponse: {
          status: { code: 'TooManyRequests' },
          headers: expect.arrayContaining([
            { header: { key: 'x-edge-reason', value: 'token_bucket_exceeded' }, appendAction: 'OVERWRITE_IF_EXISTS_OR_ADD' },
          ]),
        },
      })
      const codes = limits.map(({ messages }) => (messages[0] as { overallCode: string }).overallCode)
      expect(codes.filter((code) => code === 'OK')).toHaveLength(BURST)
      expect(codes.filter((code) => code === 'OVER_LIMIT')).toHaveLength(2 * BURST)
    })

    test('health is told, watched and no longer watched', async () => {
      const go = await client()
      expect(await go.call('HealthCheck')).toMatchObject({ code: 0, messages: [{ status: 'SERVING' }] })
      expect(await go.call('HealthCheck', { service: 'x' })).toMatchObject({ code: 5, messages: [] })
      const watches = Array.from({ length: 20 }, () => go.start('HealthWatch', { service: 'envoy.service.auth.v3.Authorization' }))
      await until(() => watches.every(({ messages }) => messages.length === 1))
      for (const watch of watches) go.cancel(watch)
      await until(() => watches.every(({ code }) => code === 1))
      // The deadline of a watch is far shorter than the watch itself.
      expect(await go.call('HealthWatch', {}, 3000)).toMatchObject({ code: 4, messages: [{ status: 'SERVING' }] })
      expect(await go.call('Check', checkOf('after'))).toMatchObject({ code: 0 })
    })

    test('calls that are cancelled or late do no harm to others', async () => {
      const go = await client()
      await go.call('Check', checkOf('first'))
      const calls = Array.from({ length: 100 }, (_, i) => {
        const call = go.start('Check', checkOf(`key ${i}`), i % 2 === 0 ? 1 : 0)
        if (i % 3 === 0) go.cancel(call)
        return call
      })
      await until(() => calls.every(({ code }) => code !== undefined))
      for (const [i, { code }] of calls.entries()) expect([0, ...(i % 2 === 0 ? [4] : []), ...(i % 3 === 0 ? [1] : [])]).toContain(code)
      expect(await go.call('Check', checkOf('last'))).toMatchObject({ code: 0 })
    })
  })

  test('our definitions of the messages are those that are published', async () => {
    const { messages } = await new GoClient('127.0.0.1:1').call('Describe')
    const published = messages[0] as Record<string, Record<string, string>>
    for (const file of ['ext_authz.proto', 'rate_limit.proto', 'health.proto']) {
      const own = fieldsIn(file)
      expect(Object.keys(own).length).toBeGreaterThan(1)
      for (const [message, fields] of Object.entries(own)) expect(published[message], message).toMatchObject(fields)
    }
  })
})
