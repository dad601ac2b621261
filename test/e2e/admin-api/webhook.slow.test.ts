import { expect, test } from 'vitest'
import { WebhookReceiver } from '../../support/admin/webhook-receiver.ts'
import { describeWithOpenssl } from '../../support/service/openssl-suite.ts'
import { scratchDirectory, serving } from '../../support/service/running.ts'
import { selfSigned } from '../../support/service/self-signed.ts'
import { until } from '../../support/until.ts'

describeWithOpenssl('EDGE_EVENTS_URL over TLS', () => {
  test.concurrent('gets none if nobody vouches for it', async (t) => {
    const receiver = await WebhookReceiver.start(t, await selfSigned(await scratchDirectory(t)))
    const cli = await serving(receiver.env, [], t)
    await until(() => cli.logged('events_not_posted').length > 0)
    expect(cli.logged('events_not_posted')).toMatchObject([{ reason: expect.stringContaining('certificate') as string }])
    expect(receiver.batches).toEqual([])
  })
})
