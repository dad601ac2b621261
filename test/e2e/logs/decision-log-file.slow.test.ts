import { readFile, truncate, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { ROOT } from '../../docs/markdown.ts'
import { bucketRule, bundle, policy } from '../../support/bundles/bundles.ts'
import { ask } from '../../support/service/http.ts'
import { metric } from '../../support/service/metrics.ts'
import { scratchDirectory, serving } from '../../support/service/running.ts'
import { original } from '../../support/service/wire.ts'
import { until } from '../../support/until.ts'
import { mortalEdge } from '../../support/workers/mortal-edge.ts'
import { servingOn } from '../../support/workers/workers.ts'

const LIMITS = bundle(
  1,
  policy('api', { rules: [bucketRule('per-key', ['header:x-api-key'], 2, 0.001), bucketRule('user', ['bearer'], 9)] }),
)

type Line = Record<string, unknown> & { readonly headers?: Record<string, unknown> }

async function linesOf(path: string): Promise<Line[]> {
  const text = await readFile(path, 'utf8')
  return text
    .split('\n')
    .filter((line) => line !== '')
    .map((line) => JSON.parse(line) as Line)
}

async function written(path: string, count: number): Promise<Line[]> {
  let lines: Line[] = []
  await until(async () => {
    lines = await linesOf(path)
    return lines.length >= count
  })
  expect(lines).toHaveLength(count)
  return lines
}

test('all workers write it, and at the end nothing is missing', async () => {
  const path = join(await scratchDirectory(), 'decisions.log')
  const cli = await servingOn(2, bundle(1, policy('api', { rules: [bucketRule('r', ['header:x-api-key'], 1)] })), {
    EDGE_DECISION_LOG: path,
  })
  const asked = Array.from({ length: 60 }, (_, i) => ask(cli.port, 'POST', '/v1/decision', original(`/${i}`, ['X-Api-Key', `k${i % 7}`])))
  await Promise.all(asked)
  expect(await cli.stop()).toBe(0)
  const lines = await linesOf(path)
  expect(new Set(lines.map(({ uri }) => uri)).size).toBe(60)
})

test('a worker that dies costs no line that was sent before, and the one in its place writes on', async () => {
  const path = join(await scratchDirectory(), 'decisions.log')
  const mortal = await mortalEdge(1, { bundle: LIMITS, env: { EDGE_DECISION_LOG: path } })
  await mortal.edge.decide({ uri: '/before' })
  await written(path, 1)
  mortal.age()
  await mortal.host.end(1, 'throw')
  await mortal.untilReplaced()
  await mortal.edge.decide({ uri: '/after' })
  expect((await written(path, 2)).map(({ uri }) => uri)).toEqual(['/before', '/after'])
  expect(await mortal.edge.metric('edge_decision_log_lines_total{result="written"}')).toBe(2)
})

test('a disk that becomes full costs lines, and the last one may be broken off; when there is room again, the next one is whole', async () => {
  const directory = await scratchDirectory()
  const path = join(directory, 'decisions.log')
  const bundlePath = join(directory, 'bundle.json')
  await writeFile(bundlePath, JSON.stringify(bundle(1, policy('api', { rules: [bucketRule('r', ['header:x-api-key'], 1)] }))))
  const program = join(directory, 'edge')
  await writeFile(program, `#!/bin/sh\nulimit -f 4\nexec '${process.execPath}' '${join(ROOT, 'program/edge.js')}' "$@"\n`, { mode: 0o755 })
  const env = { EDGE_CONFIG_FILE: bundlePath, EDGE_DECISION_LOG: path }
  const cli = await serving(env, [], undefined, { program })
  const decide = async (uri: string): Promise<number> =>
    (await ask(cli.port, 'POST', '/v1/decision', original(uri, ['X-Api-Key', `k${Math.random()}`]))).status
  for (let i = 0; i < 60; i++) expect(await decide(`/${i}`)).toBe(200)
  await until(() => cli.logged('decision_log_not_written').length > 0)
  expect(cli.logged('decision_log_not_written')[0]!['reason']).toContain('EFBIG')
  const lines = (result: string): Promise<number> => metric(cli.port, `edge_decision_log_lines_total{result="${result}"}`)
  await until(async () => (await lines('failed')) + (await lines('written')) === 60)
  expect((await readFile(path, 'utf8')).split('\n').filter((line) => line.endsWith('}'))).toHaveLength(await lines('written'))
  await truncate(path)
  expect(await decide('/after')).toBe(200)
  await until(() => cli.logged('decision_log_written_again').length === 1)
  expect(await linesOf(path)).toMatchObject([{ uri: '/after' }])
  expect(await cli.stop()).toBe(0)
})
