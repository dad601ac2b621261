import { expect, onTestFinished, test, vi } from 'vitest'
import { bucketRule, bundle, policy } from '../../support/bundles/bundles.ts'
import { RawClient } from '../../support/proxy/proxy.ts'
import { startServer } from '../../support/service/two-wires.ts'
import { decisionBytes, original, readAnswers } from '../../support/service/wire.ts'

// What another version of Node may need: every read has a buffer of its own.
vi.mock('../../../src/listen/shared-reads.ts', () => ({ shareReads: () => undefined, READ_BUFFER: undefined }))

test('the fast wire serves pieces, pipelines and what it hands over without the shared buffer, too', async () => {
  const limit = bundle(1, policy('p', { rules: [bucketRule('caller', ['header:x-caller'], 3)] }))
  const server = await startServer(limit, { hasFastWire: true })
  onTestFinished(() => server.close())
  const client = RawClient.connect(server.port)
  const question = decisionBytes(original('/', ['X-Caller', 'a']))
  client.send(question.subarray(0, 40))
  client.send(Buffer.concat([question.subarray(40), question, question, question]))
  await client.sees('429 Too Many Requests')
  client.send(Buffer.from('GET /livez HTTP/1.1\r\nHost: edge\r\nConnection: close\r\n\r\n'))
  await client.sees('\r\n\r\nok')
  expect(readAnswers(client.received).map(({ status }) => status)).toEqual([200, 200, 200, 429, 200])
})
