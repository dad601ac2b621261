import { appendFile, readdir, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { CHAT, fakeLlm, HELLO, proxyEnv } from '../../support/llm/llm-proxy.ts'
import { ask } from '../../support/service/http.ts'
import { metricsOf } from '../../support/service/metrics.ts'
import { finished, scratchDirectory, serving } from '../../support/service/running.ts'
import { until } from '../../support/until.ts'
import { expectSumsOf, usageBundle, usageLines } from '../../support/usage/usage-proxy.ts'
import { mortalEdge } from '../../support/workers/mortal-edge.ts'

const REQUESTS = 120

function bodyOf(i: number): string {
  return JSON.stringify({ model: i % 3 === 0 ? 'small-1' : 'big', messages: HELLO, max_tokens: 40 + i, stream: i % 2 === 0 })
}

const asked = (port: number, i: number) => ask(port, 'POST', CHAT, [['X-Team', `team ${i % 5}`]], bodyOf(i))

test('after kill -9 every line is there that was handed over, and what a restart writes is apart; the sums are those of the metrics and of the backend', async () => {
  const directory = await scratchDirectory()
  const bundlePath = join(directory, 'bundle.json')
  const usageDir = join(directory, 'usage')
  await writeFile(bundlePath, JSON.stringify(usageBundle(1)))
  const backend = await fakeLlm({ tokens: 7 })
  const env = { ...proxyEnv(backend), EDGE_CONFIG_FILE: bundlePath, EDGE_USAGE_DIR: usageDir, EDGE_WORKERS: '2' }
  const first = await serving(env)
  await Promise.all(Array.from({ length: REQUESTS }, (_, i) => asked(first.port, i)))
  await until(async () => (await metricsOf(first.port)).value('edge_usage_lines_written_total') === REQUESTS)
  const lines = await usageLines(usageDir)
  expectSumsOf(lines, await metricsOf(first.port))
  const served = JSON.parse((await ask(backend.port, 'GET', '/fake/usage')).body) as object
  const output = lines.reduce((sum, { tokens }) => sum + (tokens?.output ?? 0), 0)
  expect(output).toBe(7 * REQUESTS)
  expect(JSON.stringify(served)).toContain(String((7 * REQUESTS) / 3))
  first.process.kill('SIGKILL')
  await first.exited
  expect(await usageLines(usageDir)).toHaveLength(REQUESTS)
  // Half a line, as of a process that was killed while it wrote.
  await appendFile(join(usageDir, (await readdir(usageDir))[0]!), '{"time":"2026')
  const second = await serving(env)
  await asked(second.port, 1)
  expect(await second.stop()).toBe(0)
  expect((await readdir(usageDir)).length).toBeGreaterThanOrEqual(2)
  expect(await usageLines(usageDir)).toHaveLength(REQUESTS + 1)
  const report = await finished(['usage', '--by', 'rule', '--json', usageDir])
  expect(JSON.parse(report.stdout)).toMatchObject({ total: { requests: REQUESTS + 1, output: 7 * (REQUESTS + 1) }, unreadable_lines: 1 })
})

test('a worker that dies takes lines with it that it had not handed over, and they are counted', async () => {
  const usageDir = join(await scratchDirectory(), 'usage')
  const backend = await fakeLlm({ tokens: 7 })
  const mortal = await mortalEdge(1, { bundle: usageBundle(1), env: { ...proxyEnv(backend), EDGE_USAGE_DIR: usageDir } })
  for (let i = 0; i < 20; i++) await asked(mortal.port, i)
  mortal.age()
  await mortal.host.end(1, 'throw')
  await mortal.untilReplaced()
  for (let i = 0; i < 5; i++) await asked(mortal.port, i)
  const settled = async (): Promise<boolean> => {
    const metrics = await metricsOf(mortal.port)
    return (
      metrics.value('edge_usage_lines_written_total') + metrics.sum('edge_usage_lines_lost_total') ===
      metrics.sum('edge_llm_settlements_total')
    )
  }
  await until(settled)
  expectSumsOf(await usageLines(usageDir), await metricsOf(mortal.port))
})
