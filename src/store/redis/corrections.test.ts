import { beforeAll, expect, test } from 'vitest'
import { ClockedInstance } from '../../../test/support/redis/clocked-instance.ts'
import { ClockedLink } from '../../../test/support/redis/clocked-link.ts'
import { usableLink } from '../../../test/support/redis/recorded-link.ts'
import { runningRedis } from '../../../test/support/redis/redis-server.ts'
import { describeWithRedis } from '../../../test/support/redis/redis-suite.ts'
import { thisSuite } from '../../../test/support/service/suite-owner.ts'
import { bucketLimit } from '../../../test/support/store/charging.ts'
import { newEmbeddedStore } from '../table/embedded-store.ts'

const TAKER = '00000000000000aa'
const SETTLER = '00000000000000bb'
const LIMIT = bucketLimit(1e-9, 100)

describeWithRedis('what another instance has settled', () => {
  const suite = thisSuite()
  let link: ClockedLink

  beforeAll(async () => {
    link = new ClockedLink((await usableLink((await runningRedis({}, suite)).url, 5000, suite)).link)
    link.wallMs = Date.UTC(2026, 2, 7, 12)
  })

  test('is rejected by no worker of the taker, even if another worker has corrected the own count meanwhile', async () => {
    const local = newEmbeddedStore(256 * 1024)
    const worker = (): ClockedInstance => new ClockedInstance(link, 'edge:', { local, instance: TAKER })
    const [one, two] = [worker(), worker()]
    const settler = new ClockedInstance(link, 'edge:', { instance: SETTLER })
    const counter = one.open(LIMIT)
    const { taken } = await one.take(100, counter)
    await settler.settleFor(one, counter, 100, taken)
    two.onWayBack = async (action) => {
      if (action === 'take') await one.corrections!.apply()
      return undefined
    }
    expect(await two.take(100, two.open(LIMIT))).toMatchObject({ outcome: true, levels: [0] })
  })
})
