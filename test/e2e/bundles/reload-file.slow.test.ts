import { describe, expect, test } from 'vitest'
import type { Edge } from '../../support/service/edge.ts'
import { ask } from '../../support/service/http.ts'
import { serving } from '../../support/service/running.ts'

describe.concurrent('SIGHUP', () => {
  test('without a bundle file changes nothing', async (t) => {
    const cli = await serving({}, [], t)
    cli.process.kill('SIGHUP')
    cli.process.kill('SIGHUP')
    expect((await ask(cli.port, 'GET', '/livez')).body).toBe('ok')
    expect(await cli.stop()).toBe(0)
  })
})

async function limit(edge: Edge): Promise<string | undefined> {
  return (await edge.decide()).headers['ratelimit-limit']
}
