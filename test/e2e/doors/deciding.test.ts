import { expect, onTestFinished, test } from 'vitest'
import { bucketRule, bundle, policy } from '../../support/bundles/bundles.ts'
import { RawClient } from '../../support/proxy/proxy.ts'
import { HTTP_DOORS, questionBytes } from '../../support/service/doors.ts'
import { metricsOf } from '../../support/service/metrics.ts'
import { startServer } from '../../support/service/two-wires.ts'
import { readAnswers } from '../../support/service/wire.ts'
import { AsyncStore } from '../../support/store/async-store.ts'
import { until } from '../../support/until.ts'

// Shadow policies are looked at when the store has allowed: by then other questions have been read into the same buffer.
const LATER = bundle(
  1,
  policy('p', { rules: [bucketRule('r', [], 100)] }),
  policy('later', { mode: 'shadow', rules: [bucketRule('q', ['query:q', 'header:x-team'], 100)] }),
)

test.each(HTTP_DOORS.map((door) => [door.path, door] as const))(
  'while a question to %s is decided its head stays as it is, whatever others send',
  async (_path, door) => {
    const store = new AsyncStore()
    const server = await startServer(LATER, { hasFastWire: true, store })
    onTestFinished(() => server.close())
    const clients = [RawClient.connect(server.port), RawClient.connect(server.port)]
    const team = [['X-Team', 'a']] as const
    clients[0]!.send(questionBytes(door, { uri: '/first?x=1&q=1', host: 'a.example.com', fields: team }))
    await until(() => store.waiting === 1)
    clients[1]!.send(questionBytes(door, { uri: '/other', host: 'a.example.com', fields: team }))
    await until(() => store.waiting === 2)
    await until(async () => {
      await store.answerAll()
      return clients.every(({ received }) => received.endsWith('\r\n\r\n'))
    })
    for (const { received } of clients) expect(readAnswers(received).map(({ status }) => status)).toEqual([200])
    const metrics = await metricsOf(server.port)
    expect(metrics.value('edge_descriptor_missing_total{key="query:q"}')).toBe(1)
    expect(metrics.value('edge_descriptor_missing_total{key="header:x-team"}')).toBe(0)
  },
)
