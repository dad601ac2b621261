import { connect, createServer, type Socket } from 'node:net'
import { expect, onTestFinished, test, vi } from 'vitest'
import { until } from '../../test/support/until.ts'
import { writeAll } from './latin1-text.ts'

test.each([
  ['small', 10],
  ['as large as a text may be', 16 * 1024 - 4],
  ['larger', 16 * 1024],
  ['as large as a read', 64 * 1024],
  ['larger than any', 300 * 1024],
])("bytes are the caller's again, though the other side does not read: pieces that are %s", async (_, size) => {
  const { socket, other } = await connected()
  const bytes = Buffer.alloc(size)
  let sent = ''
  for (let i = 0; sent.length < 4 * 1024 * 1024 && i < 300; i++) {
    const letter = String.fromCharCode(97 + (i % 26))
    writeAll(socket, '<', bytes.fill(letter), '>')
    bytes.fill('!')
    sent += `<${letter.repeat(size)}>`
  }
  const received: Buffer[] = []
  other.on('data', (chunk: Buffer) => void received.push(chunk)).resume()
  socket.end()
  await until(() => other.readableEnded)
  expect(Buffer.concat(received).toString('latin1') === sent).toBe(true)
})

test.each([0, 10, 20_000, 100_000])('a text has one letter a byte: %i letters', async (size) => {
  const { socket, other } = await connected()
  const text = '\u00e9\u0080\u00ff'.repeat(size)
  writeAll(socket, '\u00fe', text, '\u00fd')
  socket.end()
  const received: Buffer[] = []
  other.on('data', (chunk: Buffer) => void received.push(chunk)).resume()
  await until(() => other.readableEnded)
  expect(Buffer.concat(received).toString('latin1') === `\u00fe${text}\u00fd`).toBe(true)
})

test('all of it leaves in one write', async () => {
  const { socket } = await connected()
  const write = vi.spyOn(socket, 'write')
  for (const size of [0, 10, 20_000, 100_000]) writeAll(socket, '<', Buffer.alloc(size, 'x'), '>')
  expect(write).toHaveBeenCalledTimes(4)
})

/** A connection of which the other side does not read. */
async function connected(): Promise<{ socket: Socket; other: Socket }> {
  const sockets: Socket[] = []
  const server = createServer({ pauseOnConnect: true }, (socket) => void sockets.push(socket))
  await new Promise<void>((resolve) => void server.listen(0, '127.0.0.1', resolve))
  const socket = connect((server.address() as { port: number }).port, '127.0.0.1')
  onTestFinished(() => {
    for (const each of [...sockets, socket]) each.destroy()
    server.close()
  })
  await until(() => sockets.length === 1 && !socket.connecting)
  return { socket, other: sockets[0]! }
}
