import { describe, expect, test } from 'vitest'
import { serving } from '../../support/service/running.ts'

describe('the log of the program', () => {
  test('is as silent as it is told', async () => {
    const cli = await serving({ EDGE_LOG_LEVEL: 'silent', EDGE_CONFIG_FILE: '/nowhere/bundle.json', EDGE_WORKERS: '1' })
    expect(await cli.stop()).toBe(0)
    expect(cli.stderr).toBe('')
  })

  test('at level warn tells of what is wrong and nothing else', async () => {
    const cli = await serving({ EDGE_LOG_LEVEL: 'warn', EDGE_CONFIG_FILE: '/nowhere/bundle.json', EDGE_WORKERS: '1' })
    expect(await cli.stop()).toBe(0)
    expect(cli.log.map(({ event }) => event)).toEqual(['bundle_unreadable'])
  })
})
