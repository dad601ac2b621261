import { createServer, Socket } from 'node:net'
import { expect, onTestFinished, test } from 'vitest'
import { READ_BUFFER, shareReads } from '../../../src/listen/shared-reads.ts'
import { bucketRule, bundle, policy } from '../../support/bundles/bundles.ts'
import { ECHO, EchoMethods } from '../../support/grpc/echo-methods.ts'
import { callFields, data, headers, hello, plainBlock } from '../../support/grpc/frames.ts'
import { prefixed } from '../../support/grpc/grpc-client.ts'
import { RawHttp2 } from '../../support/grpc/raw-http2.ts'
import { servingCalls } from '../../support/grpc/serving-calls.ts'
import { RawClient } from '../../support/proxy/proxy.ts'
import { startServer } from '../../support/service/two-wires.ts'
import { decisionBytes, original, readAnswers } from '../../support/service/wire.ts'
import { until } from '../../support/until.ts'

test('the fast wire serves pieces, pipelines and what it hands over with the shared buffer; so does gRPC', async () => {
  expect(await shareOne()).toBeTypeOf('function')
  await expectServed()
})

test('and the same where this version of Node cannot share it', async () => {
  const handle = Object.getPrototypeOf(await acceptedHandle()) as { useUserBuffer?: unknown }
  const { useUserBuffer } = handle
  handle.useUserBuffer = undefined
  onTestFinished(() => {
    handle.useUserBuffer = useUserBuffer
  })
  expect(await shareOne()).toBeUndefined()
  await expectServed()
})

test('bytes that come after the buffer is no longer shared are copied out of it', async () => {
  const { socket, client } = await acceptOne()
  const reads: string[] = []
  const unshare = shareReads(socket, (length) => reads.push(READ_BUFFER.toString('latin1', 0, length)))!
  socket.resume()
  client.write('abc')
  await until(() => reads.length === 1)
  expect(reads).toEqual(['abc'])
  unshare()
  const chunks: Buffer[] = []
  socket.on('data', (chunk: Buffer) => chunks.push(chunk))
  client.write('def')
  await until(() => chunks.length === 1)
  READ_BUFFER.fill(0)
  expect(Buffer.concat(chunks).toString()).toBe('def')
  expect(reads).toHaveLength(1)
})

test('in tests, a read is overwritten as soon as its callback has returned', async () => {
  const { socket, client } = await acceptOne()
  const reads: Buffer[] = []
  shareReads(socket, (length) => reads.push(READ_BUFFER.subarray(0, length)))
  socket.resume()
  client.write('abc')
  await until(() => reads.length === 1)
  expect(reads[0]!.toString()).toBe('!!!')
})

async function expectServed(): Promise<void> {
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
  await expectCallServed()
}

/** Over gRPC, in pieces. */
async function expectCallServed(): Promise<void> {
  const { port } = await servingCalls('own', { methods: new EchoMethods().methods })
  const client = new RawHttp2(port)
  const call = Buffer.concat([hello(), headers(1, plainBlock(callFields(ECHO))), data(1, prefixed('a'))])
  client.send(call.subarray(0, 60))
  await until(() => client.frames.length > 0)
  client.send(call.subarray(60))
  expect(await client.ended(1)).toMatchObject({ fields: { 'grpc-status': '0' }, messages: ['a'] })
}

async function shareOne(): Promise<ReturnType<typeof shareReads>> {
  return shareReads((await acceptOne()).socket, () => {})
}

async function acceptedHandle(): Promise<object> {
  return ((await acceptOne()).socket as Socket & { _handle: object })._handle
}

async function acceptOne(): Promise<{ socket: Socket; client: Socket }> {
  const client = new Socket()
  const socket = await new Promise<Socket>((resolve) => {
    const server = createServer((accepted) => {
      server.close()
      resolve(accepted)
    }).listen(0, '127.0.0.1', () => client.connect((server.address() as { port: number }).port, '127.0.0.1'))
  })
  onTestFinished(() => {
    client.destroy()
    socket.destroy()
  })
  return { socket, client }
}
