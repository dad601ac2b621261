import { describe, expect, test } from 'vitest'
import { finished } from '../../support/service/running.ts'

// The message for each bad value is tested in src/config/config.test.ts.
describe.concurrent('bad values', () => {
  test('one is enough', async (t) => {
    const env = { EDGE_PORT: '0', EDGE_HOST: '127.0.0.1', EDGE_CONFIG_FILE: 'b', EDGE_CONFIG_URL: 'http://127.0.0.1/' }
    const { status, stdout, stderr } = await finished(['serve'], env, t)
    expect({ status, stdout }).toEqual({ status: 1, stdout: '' })
    expect(stderr).toBe('edge cannot start:\n  EDGE_CONFIG_URL: expected one source of bundles, but EDGE_CONFIG_FILE is set too\n')
  })

  test('as options are named as options, beside those of the environment', async (t) => {
    const { status, stderr } = await finished(['serve', '--port', 'x', '--store-size', 'y'], { EDGE_PORT: '0', EDGE_LOG_LEVEL: 'z' }, t)
    expect(status).toBe(1)
    expect(stderr.match(/^ {2}\S+: /gm)).toEqual(['  --port: ', '  --store-size: ', '  EDGE_LOG_LEVEL: '])
  })
})
