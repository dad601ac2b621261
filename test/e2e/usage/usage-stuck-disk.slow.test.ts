import { mkdir, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { CHAT, fakeLlm, HELLO, proxyEnv } from '../../support/llm/llm-proxy.ts'
import { ask } from '../../support/service/http.ts'
import { metricsOf } from '../../support/service/metrics.ts'
import { scratchDirectory, serving } from '../../support/service/running.ts'
import { freezingDisk } from '../../support/state/faulty-disk.ts'
import { until } from '../../support/until.ts'
import { expectSumsOf, usageBundle, usageLines } from '../../support/usage/usage-proxy.ts'

const REQUESTS = 60

test('a disk that hangs holds no response; when it goes on, every line is there', async (context) => {
  const scratch = await scratchDirectory()
  const directory = join(scratch, 'disk')
  await mkdir(directory)
  const disk = freezingDisk(directory, context)
  context.onTestFinished(() => disk.thaw())
  const bundlePath = join(scratch, 'bundle.json')
  await writeFile(bundlePath, JSON.stringify(usageBundle(1)))
  const backend = await fakeLlm({ tokens: 7 })
  const env = { EDGE_CONFIG_FILE: bundlePath, EDGE_USAGE_DIR: join(directory, 'usage'), EDGE_WORKERS: '2' }
  const edge = await serving({ ...proxyEnv(backend), ...env })
  const asked = async (i: number): Promise<number> => {
    const body = JSON.stringify({ model: 'big', messages: HELLO, max_tokens: 40, stream: i % 2 === 0 })
    return (await ask(edge.port, 'POST', CHAT, [['X-Team', 'red']], body)).status
  }
  const written = async (): Promise<number> => (await metricsOf(edge.port)).value('edge_usage_lines_written_total')
  expect(await asked(1)).toBe(200)
  await until(async () => (await written()) === 1)
  disk.freeze()
  // One after the other, so that each would wait for the one before it.
  for (let i = 0; i < REQUESTS; i++) expect(await asked(i)).toBe(200)
  expect(await written()).toBe(1)
  disk.thaw()
  await until(async () => (await written()) === REQUESTS + 1)
  expectSumsOf(await usageLines(join(directory, 'usage')), await metricsOf(edge.port))
  expect(await edge.stop()).toBe(0)
})
