import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { pino } from 'pino'
import { expect, onTestFinished, test } from 'vitest'
import { BundleServer } from '../../test/support/bundles/bundle-server.ts'
import { known } from '../../test/support/bundles/bundle-url.ts'
import { scratchDirectory } from '../../test/support/service/running.ts'
import { until } from '../../test/support/until.ts'
import { AllowedHosts } from '../outbound/allowed-hosts.ts'
import { BundleCache } from './bundle-cache.ts'
import { BundleIntake, type IntakeResult } from './bundle-intake.ts'
import type { OfferedBundle } from './bundle-source.ts'
import { BundleUrl } from './bundle-url.ts'

test('a bundle that was refused is not tried again with each poll: workers may die of it', async () => {
  const tried: string[] = []
  const intake = new BundleIntake(
    async (_bundle, { version }) => {
      tried.push(version)
      throw new Error('workers end while they compile it')
    },
    () => 0,
  )
  const source = await BundleServer.start()
  source.publish(known(1))
  const bundles = polling(source.url, intake)
  await bundles.start()
  await source.polled(3)
  expect(tried).toEqual(['1'])

  await bundles.reload()
  expect(tried).toEqual(['1', '1'])

  source.publish(known(2))
  await source.polled(3)
  expect(tried).toEqual(['1', '1', '2'])
})

test('an offer that fails is made again with the next poll', async () => {
  const offers: string[] = []
  class FailingOnce extends BundleIntake {
    override async offer(bundle: OfferedBundle): Promise<IntakeResult> {
      offers.push(Buffer.from(bundle.bytes).toString())
      if (offers.length === 1) throw new Error('too many open files')
      return super.offer(bundle)
    }
  }
  const intake = new FailingOnce(
    async () => {},
    () => 0,
  )
  const source = await BundleServer.start()
  source.publish(known(1))
  await polling(source.url, intake).start()
  await until(() => intake.active?.version === '1')
  expect(offers.length).toBe(2)
})

test('a bundle that came just before the end is in the cache', async () => {
  const source = await BundleServer.start()
  source.publish(known(1))
  const path = join(await scratchDirectory(), 'cache')
  const intake = new BundleIntake(
    async () => {},
    () => 0,
  )
  const bundles = polling(source.url, intake, new BundleCache(path, pino({ level: 'silent' }), { series: () => ({ count: 0 }) }))
  await bundles.start()
  await bundles.stop()
  expect(await readFile(path, 'utf8')).toContain(known(1))
})

function polling(url: string, intake: BundleIntake, cache?: BundleCache): BundleUrl {
  const counts = { count: 0 }
  const bundles = new BundleUrl({
    redirectHosts: new AllowedHosts([]),
    url: new URL(url),
    token: undefined,
    pollMs: 20,
    userAgent: 'test',
    cache,
    intake,
    onGoodPoll() {},
    logger: pino({ level: 'silent' }),
    reloads: { series: () => counts },
    active: () => intake.active,
  })
  onTestFinished(() => bundles.stop())
  return bundles
}
