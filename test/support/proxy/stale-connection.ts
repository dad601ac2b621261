import { expect } from 'vitest'
import type { Edge } from '../service/edge.ts'
import { RawBackend, type RawConnection } from './backend.ts'
import { answerBytes, proxying, statusesIn } from './proxy.ts'

/** It promises to keep the connection for longer than any machine stands still. */
export const OK = 'HTTP/1.1 200 OK\r\nKeep-Alive: timeout=600\r\nContent-Length: 2\r\n\r\nok'

/** A proxy whose one connection to the backend has served a request. What comes next gets this, and what comes then is answered. */
export async function afterOneAnswer(next: (connection: RawConnection) => unknown): Promise<[Edge, RawBackend]> {
  const backend = await RawBackend.start((connection, index) => {
    if (index === 1) next(connection)
    else connection.socket.write(OK)
  })
  const edge = await proxying(backend)
  expect(statusesIn(await ask(edge, 'GET', '', '/first'))).toEqual([200])
  expect(backend.openConnections).toBe(1)
  return [edge, backend]
}

export function ask(edge: Edge, method: string, body = '', path = '/'): Promise<string> {
  const length = body === '' ? '' : `Content-Length: ${body.length}\r\n`
  return answerBytes(edge.port, `${method} ${path} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n${length}\r\n${body}`)
}

/** The request lines that came, in order. */
export function requests(backend: RawBackend): string[] {
  return [...backend.received.matchAll(/^([A-Z]+ \S+) HTTP\/1\.1\r$/gm)].map(([, line]) => line!)
}
