import { execFileSync, spawnSync } from 'node:child_process'
import { availableParallelism } from 'node:os'
import { describe, expect, test } from 'vitest'
import type { Cli } from '../../support/service/cli.ts'
import { ask } from '../../support/service/http.ts'
import { metricsOf } from '../../support/service/metrics.ts'
import { serving } from '../../support/service/running.ts'
import { untilLogged } from '../../support/service/until-logged.ts'

const hasTaskset = spawnSync('taskset', ['--version']).status === 0

describe.concurrent('there are as many workers', () => {
  test.for([1, 5])('as EDGE_WORKERS says: %i', async (workers, t) => {
    const cli = await serving({ EDGE_WORKERS: String(workers) }, [], t)
    await expectWorkers(cli, workers)
  })

  test('as --workers says, whatever EDGE_WORKERS does', async (t) => {
    await expectWorkers(await serving({ EDGE_WORKERS: 'nonsense' }, ['--workers', '3'], t), 3)
  })

  test('as there are cores, at most', async (t) => {
    const cli = await serving({ EDGE_WORKERS: '' }, [], t)
    const workers = (await startedWith(cli)) as number
    expect(workers).toBeLessThanOrEqual(availableParallelism())
    await expectWorkers(cli, workers)
  })
})

// By itself: what the test is allowed to use counts for whatever it starts meanwhile.
test.skipIf(!hasTaskset)('there are no more workers than cores that the process may use', async () => {
  await expectWorkers(await servingPinned(), 1)
})

/** On one core: a process has the affinity of the one that starts it. */
async function servingPinned(): Promise<Cli> {
  const own = execFileSync('taskset', ['-p', String(process.pid)], { encoding: 'utf8' })
    .trim()
    .split(' ')
    .at(-1)!
  const first = /^(\d+)/.exec(execFileSync('taskset', ['-cp', String(process.pid)], { encoding: 'utf8' }).split(': ')[1]!)![1]!
  execFileSync('taskset', ['-cp', first, String(process.pid)])
  try {
    return await serving({ EDGE_WORKERS: '' })
  } finally {
    execFileSync('taskset', ['-p', own, String(process.pid)])
  }
}

async function expectWorkers(cli: Cli, workers: number): Promise<void> {
  expect(await startedWith(cli)).toBe(workers)
  const metrics = await metricsOf(cli.port)
  expect(metrics.value('edge_workers')).toBe(workers)
  expect(metrics.connections).toHaveLength(workers)
  expect((await ask(cli.port, 'GET', '/livez')).status).toBe(200)
}

async function startedWith(cli: Cli): Promise<unknown> {
  return (await untilLogged(cli, 'started'))[0]!['workers']
}
