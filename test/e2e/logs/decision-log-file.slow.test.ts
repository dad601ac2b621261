import { mkdir, readFile, rename, rmdir, truncate, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { describe, expect, test } from 'vitest'
import { ROOT } from '../../docs/markdown.ts'
import { ADMIN_ENV, askAdmin } from '../../support/admin/admin-client.ts'
import { bucketRule, bundle, llmRule, policy } from '../../support/bundles/bundles.ts'
import { runningRedis } from '../../support/redis/redis-server.ts'
import { describeWithRedis } from '../../support/redis/redis-suite.ts'
import { logging } from '../../support/service/decision-log-file.ts'
import { ask } from '../../support/service/http.ts'
import { metric } from '../../support/service/metrics.ts'
import { running, scratchDirectory, serving } from '../../support/service/running.ts'
import { untilLogged } from '../../support/service/until-logged.ts'
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
  expect((await untilLogged(cli, 'decision_log_not_written'))[0]!['reason']).toContain('EFBIG')
  const lines = (result: string): Promise<number> => metric(cli.port, `edge_decision_log_lines_total{result="${result}"}`)
  await until(async () => (await lines('failed')) + (await lines('written')) === 60)
  expect((await readFile(path, 'utf8')).split('\n').filter((line) => line.endsWith('}'))).toHaveLength(await lines('written'))
  await truncate(path)
  expect(await decide('/after')).toBe(200)
  await until(() => cli.logged('decision_log_written_again').length === 1)
  expect(await linesOf(path)).toMatchObject([{ uri: '/after' }])
  expect(await cli.stop()).toBe(0)
})

describe('every decided request has a line', () => {
  test('with what a gateway states of the body', async () => {
    const limits = bundle(1, policy('llm', { rules: [llmRule('tokens', [], { tokens_per_minute: 1000 })] }))
    const { edge, lines } = await logging({ bundle: limits, env: { EDGE_GATEWAY_HINTS: 'on' } })
    await edge.decide({
      fields: [
        ['X-Edge-Prompt-Tokens', '7'],
        ['X-Edge-Max-Tokens', '9'],
      ],
    })
    await edge.decide()
    const [stated, silent] = await lines(2)
    expect([stated!.headers, silent!.headers]).toEqual([{ 'x-edge-prompt-tokens': '7', 'x-edge-max-tokens': '9' }, undefined])
  })

  test('after a reload, with what the new bundle reads', async () => {
    const { edge, lines } = await logging()
    const fields = [
      ['X-Api-Key', 'alice'],
      ['X-Team', 'red'],
    ] as const
    await edge.decide({ fields })
    await edge.publish(bundle(2, policy('api', { rules: [bucketRule('r', ['header:x-team'], 9)] })))
    await edge.decide({ fields })
    expect((await lines(2)).map(({ headers }) => headers)).toEqual([{ 'x-api-key': 'alice' }, { 'x-team': 'red' }])
  })
})

describe('the file', () => {
  test('that cannot be written costs lines, which are counted and reported, and no decision', async () => {
    const { edge, path, lines } = await logging({ env: ADMIN_ENV })
    await edge.decide({ uri: '/before' })
    await lines(1)
    await rename(path, `${path}.1`)
    await mkdir(path)
    expect((await edge.decide({ uri: '/lost' })).status).toBe(200)
    expect((await untilLogged(edge, 'decision_log_not_written'))[0]).toMatchObject({ path, reason: 'it is not a regular file' })
    const { json } = await askAdmin(edge.adminPort, 'GET', 'status')
    expect(json).toMatchObject({ problems: [{ code: 'decision_log_not_written' }] })
    await rmdir(path)
    await edge.decide({ uri: '/after' })
    await until(() => edge.logged('decision_log_written_again').length === 1)
    expect((await lines(1))[0]).toMatchObject({ uri: '/after' })
    const metrics = (await ask(edge.adminPort, 'GET', '/metrics')).body
    expect(metrics).toContain('edge_decision_log_lines_total{result="failed"} 1\n')
    expect(metrics).toContain('edge_decision_log_lines_total{result="written"} 2\n')
  })

  test('has no line of a request that is too long for one, which is counted', async () => {
    const { edge, lines } = await logging()
    await edge.decide({ uri: `/${'x'.repeat(17_000)}` })
    await edge.decide({ uri: '/short' })
    expect((await lines(1))[0]).toMatchObject({ uri: '/short' })
    expect(await edge.metric('edge_decision_log_lines_total{result="too_long"}')).toBe(1)
  })

  test('is not there unless it is asked for', async () => {
    const edge = await running({ bundle: LIMITS })
    await edge.decide()
    expect((await edge.get('/metrics')).body).not.toMatch(/^edge_decision_log_lines_total\{/m)
  })
})

describeWithRedis('with counters in Redis', () => {
  test('lines are the same', async () => {
    const redis = await runningRedis()
    const { edge, lines } = await logging({ env: { EDGE_REDIS_URL: redis.url, EDGE_REDIS_TIMEOUT_MS: '60000' } })
    expect(await edge.decideTimes(3, { uri: '/r', fields: [['X-Api-Key', 'alice']] })).toEqual([200, 200, 429])
    for (const line of await lines(3)) expect(line).toMatchObject({ uri: '/r', headers: { 'x-api-key': 'alice' } })
  })
})
