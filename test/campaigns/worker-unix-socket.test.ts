import { connect, type Socket } from 'node:net'
import { expect, onTestFinished, test } from 'vitest'
import { bucketRule, bundle, policy } from '../support/bundles/bundles.ts'
import { metricsOf } from '../support/service/metrics.ts'
import { serving } from '../support/service/running.ts'
import { socketPath } from '../support/service/unix-socket.ts'
import { until } from '../support/until.ts'
import { mortalEdge } from '../support/workers/mortal-edge.ts'

const WORKERS = 2
const BURST = 40
const BUNDLE = bundle(1, policy('p', { rules: [bucketRule('r', [], BURST, 0.001)] }))
const QUESTION = 'POST /v1/decision HTTP/1.1\r\nHost: a\r\nX-Original-Method: GET\r\nX-Original-URI: /\r\n\r\n'

test('a unix socket is accepted on by all workers, with one limit, and by the one that takes the place of a dead one', async () => {
  const path = await socketPath()
  const mortal = await mortalEdge(WORKERS, { bundle: BUNDLE, env: { EDGE_SOCKET: path } })
  await connectedToAll(path)
  mortal.age()
  await mortal.host.terminate(1)
  await mortal.untilReplaced()
  const callers = await connectedToAll(path)

  const received = callers.map(noting)
  for (const caller of callers) caller.write(QUESTION.repeat(2 * BURST))
  const count = (status: number): number => received.join('').split(`HTTP/1.1 ${status} `).length - 1
  await until(() => count(200) + count(429) === callers.length * 2 * BURST)
  expect(count(200)).toBe(BURST)
})

test('connections on a unix socket are bounded by the limit of open files, and half requests make room for others', async () => {
  const path = await socketPath()
  await serving({ EDGE_PORT: 'off', EDGE_SOCKET: path, EDGE_ADMIN_PORT: '0' }, [], undefined, { maxOpenFiles: 128 })
  const half = (): Socket => {
    const socket = connecting(path)
    socket.write('POST /v1/decision HTTP/1.1\r\n')
    return socket
  }
  const sockets = Array.from({ length: 128 - 40 - 20 - 32 }, half)
  const received = sockets.map(noting)
  // All callers have one address there, so these give way when they are a little older; until then the newcomer gets 503.
  await until(() => {
    half()
    return sockets.some(({ destroyed }) => destroyed)
  })
  expect(received.join('')).toBe('')
})

function connecting(path: string): Socket {
  const socket = connect(path)
  onTestFinished(() => void socket.destroy())
  socket.on('error', () => {}) // a worker has died, or had no place
  return socket
}

/** What has come on it so far, as text. */
function noting(socket: Socket): { toString(): string } {
  let received = ''
  socket.on('data', (chunk: Buffer) => {
    received += chunk.toString('latin1')
  })
  return { toString: () => received }
}

/** The system wakes whom it likes: there are more callers until each worker has some. */
async function connectedToAll(path: string): Promise<Socket[]> {
  const callers: Socket[] = []
  do {
    for (let i = 0; i < 4; i++) callers.push(connecting(path))
    // One is the question's own.
  } while (Math.min(...(await metricsOf(path)).connections) < 2)
  return callers
}
