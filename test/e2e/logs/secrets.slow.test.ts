import { expect, test } from 'vitest'
import { serving } from '../../support/service/running.ts'

const SECRETS = {
  debugSecret: 'debug-secret-7f3a9c',
  wrongSecret: 'wrong-secret-51d2e8',
  apiKey: 'api-key-c0ffee42',
  claim: 'claim-value-9b8a7c',
  password: 'backend-password-77aa',
  query: 'query-token-3d3d3d',
  otherCookie: 'other-cookie-1f1f1f',
}

test.each(['ftp', 'http'])('a start that fails shows no secret either, with a backend at %s', async (scheme) => {
  const cli = await serving({
    EDGE_DEBUG_SESSION_SECRET: SECRETS.debugSecret,
    EDGE_BACKEND_URL: `${scheme}://user:${SECRETS.password}@127.0.0.1`,
    EDGE_LOG_LEVEL: 'loud',
  })
  expect(await cli.exited).toBe(1)
  expect(cli.stderr).toContain('EDGE_BACKEND_URL')
  for (const secret of Object.values(SECRETS)) expect(cli.stdout + cli.stderr).not.toContain(secret)
})
