import { join } from 'node:path'
import { describe, expect, type TestContext, test } from 'vitest'
import { SETTINGS } from '../../../src/config/settings.ts'
import { replaceFile } from '../../support/bundles/bundle-file.ts'
import { bundle } from '../../support/bundles/bundles.ts'
import { ask } from '../../support/service/http.ts'
import { running, scratchDirectory, serving } from '../../support/service/running.ts'
import { untilLogged } from '../../support/service/until-logged.ts'

const LOOPBACK = { EDGE_PORT: '0', EDGE_HOST: '127.0.0.1' }

describe.concurrent('good values', () => {
  test('an option wins over the environment, even over a bad one', async (t) => {
    const [fromEnv, fromOption] = [await bundleFile(t, 1), await bundleFile(t, 2)]
    const cli = await serving(
      { EDGE_PORT: 'nonsense', EDGE_CONFIG_FILE: fromEnv, EDGE_LOG_LEVEL: 'silent' },
      ['--port=0', '--config-file', fromOption, '--log-level', 'info'],
      t,
    )
    expect(JSON.parse((await ask(cli.port, 'GET', '/readyz')).body)).toMatchObject({ policy_version: '2' })
    expect(cli.stdout).toContain(`version 2 from ${fromOption}`)
    expect(await untilLogged(cli, 'started')).toContainEqual(expect.objectContaining({ event: 'started' }))
  })

  test('an empty variable counts as unset', async (t) => {
    const empty = Object.fromEntries(Object.values(SETTINGS).map(({ env }) => [env, '']))
    const edge = await running({ env: { ...empty, ...LOOPBACK } }, t)
    expect((await edge.post('/v1/debug/session', [['X-Edge-Debug-Secret', '']])).status).toBe(404)
    expect((await edge.get('/readyz')).status).toBe(503)
  })
})

async function bundleFile(t: TestContext, version: number): Promise<string> {
  const path = join(await scratchDirectory(t), 'bundle.json')
  await replaceFile(path, JSON.stringify(bundle(version)))
  return path
}
