import { mkdir, readdir, rm } from 'node:fs/promises'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { CHAT, fakeLlm, HELLO } from '../../support/llm/llm-proxy.ts'
import { scratchDirectory } from '../../support/service/running.ts'
import { smallDisk } from '../../support/state/faulty-disk.ts'
import { until } from '../../support/until.ts'
import { expectSumsOf, usageLines, usageProxy } from '../../support/usage/usage-proxy.ts'

const BIG = { model: 'big', messages: HELLO, max_tokens: 50 }

test('a disk that becomes full costs lines, no request; lines and losses stay what the metrics say, and it goes on when there is room', async (context) => {
  const directory = join(await scratchDirectory(), 'disk')
  await mkdir(directory)
  const disk = smallDisk(directory, context)
  const proxy = await usageProxy(await fakeLlm({ tokens: 10 }), { env: { EDGE_USAGE_DIR: directory } })
  const ask = async (): Promise<void> => expect((await proxy.post(CHAT, BIG, [['X-Team', 'red']])).status).toBe(200)
  const lostLines = async (): Promise<number> => (await proxy.metrics()).value('edge_usage_lines_lost_total{reason="disk_failed"}')
  await ask()
  await until(async () => (await usageLines(directory)).length === 1)
  disk.fill()
  for (let i = 0; i < 30; i++) await ask()
  await until(async () => (await lostLines()) > 0)
  expect(proxy.edge.logged('usage_not_written')).toMatchObject([{ reason: expect.stringContaining('ENOSPC') }])
  for (const name of await readdir(directory)) if (name.startsWith('filler-')) await rm(join(directory, name))
  for (let i = 0; i < 10; i++) await ask()
  await until(() => proxy.edge.logged('usage_written_again').length === 1)
  await until(async () => {
    const metrics = await proxy.metrics()
    return metrics.sum('edge_usage_lines_lost_total') + metrics.value('edge_usage_lines_written_total') === 41
  })
  expectSumsOf(await usageLines(directory), await proxy.metrics())
})
