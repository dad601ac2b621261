import { connect, createServer, type TLSSocket } from 'node:tls'
import { expect, onTestFinished, test, vi } from 'vitest'
import { ownPair } from '../../test/support/tls/tls-edge.ts'
import { until } from '../../test/support/until.ts'
import { writeAll } from './latin1-text.ts'

const SIZE = 60_000

test.each([
  ['are open', true],
  ['are still connecting', false],
])('writes to secured sockets that %s share a buffer, and none sees the bytes of another', async (_when, isOpen) => {
  const { sockets, received } = await secured(4, isOpen)
  const sent = sockets.map(() => '')
  const bytes = Buffer.alloc(SIZE)
  for (let round = 0; round < 12; round++) {
    for (const [i, socket] of sockets.entries()) {
      const letter = String.fromCharCode(97 + ((round * sockets.length + i) % 26))
      // In some rounds the bytes are written alone, so an open socket gets them without a copy.
      const [before, behind] = round % 4 === 0 ? ['', ''] : ['<', '>']
      writeAll(socket, before, bytes.fill(letter), behind)
      bytes.fill('!')
      sent[i] += `${before}${letter.repeat(SIZE)}${behind}`
    }
    // What waits in a socket is sent meanwhile, in some rounds.
    if (isOpen && round % 3 === 2) await until(() => sockets.every(({ writableLength }) => writableLength === 0))
  }
  for (const socket of sockets) socket.end()
  await until(() => received.length === sockets.length)
  expect(received.toSorted().every((text, i) => text === sent.toSorted()[i])).toBe(true)
})

test.each([
  ['an open socket gets bytes without a copy', true],
  ['a socket that is still connecting gets a copy', false],
])('%s', async (_what, isOpen) => {
  const { sockets } = await secured(1, isOpen)
  const write = vi.spyOn(sockets[0]!, 'write')
  const bytes = Buffer.alloc(SIZE, 'a')
  writeAll(sockets[0]!, '', bytes, '')
  expect((write.mock.calls[0]![0] as Buffer).buffer === bytes.buffer).toBe(isOpen)
})

/** Clients of a server that notes all that came on each connection. */
async function secured(count: number, isOpen: boolean): Promise<{ sockets: readonly TLSSocket[]; received: string[] }> {
  const { cert, key } = await ownPair()
  const received: string[] = []
  const server = createServer({ cert, key }, (socket) => {
    const chunks: Buffer[] = []
    socket.on('data', (chunk) => void chunks.push(chunk))
    socket.on('end', () => void received.push(Buffer.concat(chunks).toString('latin1')))
  })
  await new Promise<void>((resolve) => void server.listen(0, '127.0.0.1', resolve))
  const { port } = server.address() as { port: number }
  let open = 0
  const sockets = Array.from({ length: count }, () => connect({ port, host: '127.0.0.1', rejectUnauthorized: false }, () => void open++))
  onTestFinished(() => {
    for (const socket of sockets) socket.destroy()
    server.close()
  })
  if (isOpen) await until(() => open === count)
  return { sockets, received }
}
