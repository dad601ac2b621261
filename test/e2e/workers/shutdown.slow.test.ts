import { describe, expect, onTestFinished, test } from 'vitest'
import { bucketRule, bundle, policy } from '../../support/bundles/bundles.ts'
import { ask } from '../../support/service/http.ts'
import { Load } from '../../support/service/load.ts'
import { decisionBytes, original } from '../../support/service/wire.ts'
import { until } from '../../support/until.ts'
import { Crowd } from '../../support/workers/crowd.ts'
import { servingOn } from '../../support/workers/workers.ts'

const WORKERS = 3
const BUNDLE = bundle(1, policy('p', { rules: [bucketRule('r', [], 1_000_000)] }))
const QUESTION = decisionBytes(original('/'))

describe('several workers shut down as one', () => {
  test('what came in part is answered when the rest comes, on every worker, and then the process ends', async () => {
    const cli = await servingOn(WORKERS, BUNDLE)
    const crowd = await Crowd.gather(cli.port)
    // The answer to a whole question shows that the worker has the connection; half of the next came with it.
    const first = await crowd.ask(Buffer.concat([QUESTION, QUESTION.subarray(0, 40)]))
    expect(first.map(({ status }) => status)).toEqual(Array(crowd.size).fill(200))

    cli.process.kill('SIGTERM')
    await until(() => isClosed(cli.port))
    expect(cli.process.exitCode).toBeNull()
    const answers = await crowd.ask(QUESTION.subarray(40))

    expect(answers.map(({ status }) => status)).toEqual(Array(crowd.size).fill(200))
    expect(await cli.exited).toBe(0)
    expect(cli.log.at(-1)).toMatchObject({ event: 'stopped' })
    expect(cli.log.filter(({ event }) => event === 'worker_died')).toEqual([])
  })

  test('under load, no question goes unanswered while they drain, and none of them is ready', async () => {
    const cli = await servingOn(WORKERS, BUNDLE, { EDGE_DRAIN_MS: '600000' })
    const load = new Load(cli.port, original('/'), 12)
    onTestFinished(() => load.stop())
    await until(() => load.total > 100)
    cli.process.kill('SIGTERM')
    await until(() => cli.log.some(({ event }) => event === 'stopping'))
    const ready = await Promise.all(Array.from({ length: 4 * WORKERS }, () => ask(cli.port, 'GET', '/readyz')))
    const target = load.total + 200
    await until(() => load.total > target)
    await load.stop()

    expect(ready.map(({ status }) => status)).toEqual(Array(4 * WORKERS).fill(503))
    expect(load.errors).toEqual([])
    expect([...load.statuses.keys()]).toEqual([200])
  })
})

function isClosed(port: number): Promise<boolean> {
  return ask(port, 'GET', '/livez').then(
    () => false,
    ({ code }: NodeJS.ErrnoException) => code === 'ECONNREFUSED',
  )
}
