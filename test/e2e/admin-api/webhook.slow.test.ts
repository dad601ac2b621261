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

  test.concurrent('gets events if NODE_EXTRA_CA_CERTS vouches for its certificate', async (t) => {
    const certificate = await selfSigned(await scratchDirectory(t))
    const receiver = await WebhookReceiver.start(t, certificate)
    const cli = await serving({ ...receiver.env, NODE_EXTRA_CA_CERTS: certificate.path }, [], t)
    await receiver.untilNamed('started')
    expect(await cli.stop()).toBe(0)
    expect(receiver.events.at(-1)).toMatchObject({ event: 'stopped' })
    expect(`${cli.stdout}${cli.stderr}`).not.toMatch(/a-secret-in-the-query|whsec_/)
  })
})
