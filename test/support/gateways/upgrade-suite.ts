import { once } from 'node:events'
import { connect } from 'node:net'
import { expect, test } from 'vitest'
import type { HttpBackend } from '../proxy/backend.ts'
import type { Gateway } from './gateway.ts'
import { behind, edgeAllowing } from './gateway-setup.ts'

const WEBSOCKET = 'Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n'
const H2C = 'HTTP2-Settings: AAMAAABkAARAAAAAAAIAAAAA\r\n'

/** In a connection of another protocol a client may send request after request, and edge is asked about none of them. */
const OTHER_PROTOCOLS = [
  `Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\n${H2C}`,
  `Connection: Upgrade, HTTP2-Settings\r\nUpgrade: H2C\r\n${H2C}`,
  `Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c, websocket\r\n${H2C}${WEBSOCKET}`,
  `Connection: Upgrade, HTTP2-Settings\r\nUpgrade: websocket, h2c\r\n${H2C}${WEBSOCKET}`,
  `Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nUpgrade: websocket\r\n${H2C}${WEBSOCKET}`,
  `Connection: Upgrade, HTTP2-Settings\r\nUpgrade: websocket\r\nUpgrade: h2c\r\n${H2C}${WEBSOCKET}`,
  'Connection: Upgrade\r\nUpgrade: HTTP/2.0\r\n',
  'Connection: Upgrade\r\nUpgrade: websocketx\r\n',
]

export function upgradeSuite(gateway: Gateway): void {
  test('asks the backend for no other protocol than WebSocket, in which edge would not be asked', async () => {
    const { port, backend } = await behind(gateway, await edgeAllowing(1))
    const protocols = upgradesOf(backend)
    for (const fields of OTHER_PROTOCOLS) {
      await responseTo(port, `GET / HTTP/1.1\r\nHost: 127.0.0.1\r\n${fields}\r\n`)
      expect([fields, protocols.filter((protocol) => protocol !== 'websocket')]).toEqual([fields, []])
    }
  })
}

/** What the backend is asked to change to. It agrees to everything. */
function upgradesOf(backend: HttpBackend): string[] {
  const protocols: string[] = []
  backend.server.on('upgrade', ({ headers }, socket) => {
    protocols.push(headers.upgrade!)
    socket.end(`HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: ${headers.upgrade}\r\n\r\n`)
  })
  return protocols
}

async function responseTo(port: number, request: string): Promise<void> {
  const socket = connect(port, '127.0.0.1')
  socket.write(request)
  await once(socket, 'data')
  socket.destroy()
}
