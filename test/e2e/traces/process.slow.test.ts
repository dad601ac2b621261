import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { bucketRule, bundle, policy } from '../../support/bundles/bundles.ts'
import { ask } from '../../support/service/http.ts'
import { scratchDirectory, serving } from '../../support/service/running.ts'
import { original } from '../../support/service/wire.ts'
import { OtlpReceiver } from '../../support/traces/otlp-receiver.ts'
import { callerSpan } from '../../support/traces/trace-contexts.ts'
import { until } from '../../support/until.ts'

test('all workers send their spans, with the credentials of the environment', async () => {
  const receiver = await OtlpReceiver.start()
  const bundleFile = join(await scratchDirectory(), 'bundle.json')
  await writeFile(bundleFile, JSON.stringify(bundle(1, policy('p', { rules: [bucketRule('r', [], 100)] }))))
  const cli = await serving({
    ...receiver.env,
    EDGE_OTLP_URL: `${receiver.url}/below/`,
    EDGE_CONFIG_FILE: bundleFile,
    EDGE_WORKERS: '2',
    OTEL_EXPORTER_OTLP_HEADERS: 'authorization=Bearer a-secret',
    OTEL_EXPORTER_OTLP_COMPRESSION: 'gzip',
    OTEL_SERVICE_NAME: 'edge-of-shop',
    OTEL_RESOURCE_ATTRIBUTES: 'deployment.environment.name=test',
  })
  const callers = Array.from({ length: 16 }, () => callerSpan())
  const asked = callers.map(({ traceparent }) => ask(cli.port, 'POST', '/v1/decision', [...original('/'), ['traceparent', traceparent]]))
  for (const { status } of await Promise.all(asked)) expect(status).toBe(200)
  await until(() => receiver.spans.length === callers.length)
  expect(await cli.stop()).toBe(0)
  expect(receiver.spans.map(({ parentSpanId }) => parentSpanId).toSorted()).toEqual(callers.map(({ spanId }) => spanId).toSorted())
  for (const { path, headers } of receiver.exports) {
    expect(path).toBe('/below/v1/traces')
    expect(headers).toMatchObject({ authorization: 'Bearer a-secret', 'content-encoding': 'gzip' })
    expect(headers['user-agent']).toMatch(/^edge\//)
  }
  for (const { resource } of receiver.spans) {
    expect(resource).toMatchObject({ 'service.name': 'edge-of-shop', 'deployment.environment.name': 'test' })
    expect(resource['service.instance.id']).toMatch(new RegExp(`:${cli.process.pid}$`))
  }
  expect(cli.stderr).not.toContain('a-secret')
})
