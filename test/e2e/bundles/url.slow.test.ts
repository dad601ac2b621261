import { describe, expect, test } from 'vitest'
import { BundleServer } from '../../support/bundles/bundle-server.ts'
import { known, urlEnv } from '../../support/bundles/bundle-url.ts'
import { serving } from '../../support/service/running.ts'
import { until } from '../../support/until.ts'

describe.concurrent('SIGHUP', () => {
  test('while a poll hangs: that one is given up, and asked anew', async (t) => {
    const source = await BundleServer.start(t)
    let givenUp = 0
    source.respond = (_req, res) => void res.on('close', () => givenUp++) // never
    const cli = await serving(urlEnv(source.url), [], t)
    await until(() => source.requests.length === 1)
    // The second finds one that hangs too, the one of the first.
    for (let i = 1; i <= 2; i++) {
      cli.process.kill('SIGHUP')
      await until(() => givenUp === i && source.requests.length === i + 1)
    }
    source.publish(known(1))
    cli.process.kill('SIGHUP')
    await until(() => cli.logged('bundle_applied').length === 1)
    expect(cli.logged('bundle_unreadable')).toEqual([])
  })
})

test('a service that polls stops at once, with a request on its way', async (t) => {
  const source = await BundleServer.start(t)
  source.publish(known(1))
  const cli = await serving(urlEnv(source.url), [], t)
  await until(() => cli.logged('bundle_applied').length === 1)
  expect(cli.stdout).toContain(source.url)
  source.respond = () => {} // never
  await source.polled()
  expect(await cli.stop()).toBe(0)
  expect(cli.logged('bundle_unreadable')).toEqual([])
})
