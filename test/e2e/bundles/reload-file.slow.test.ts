import { describe, expect, test } from 'vitest'
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
