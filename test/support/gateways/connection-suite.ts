import { expect, test } from 'vitest'
import { HttpBackend } from '../proxy/backend.ts'
import { gateTo } from '../redis/tcp-gate.ts'
import { ask } from '../service/http.ts'
import { type Gateway, isGrpc } from './gateway.ts'
import { ALICE, behind, edgeAllowing, portFor } from './gateway-setup.ts'
import { type RecordingEdge, recordingEdge } from './recording-edge.ts'

/** The connections between a gateway and what is behind it. */
export function connectionSuite(gateway: Gateway): void {
  const { noKeepAlive } = gateway.limits
  test(`${noKeepAlive ? 'shares no connection to edge between requests' : 'keeps its connections to edge'}, whatever the answers are`, async () => {
    const gate = await gateTo(portFor(gateway, await edgeAllowing(50)))
    const { port } = await behind(gateway, gate)
    const statuses: number[] = []
    for (let i = 0; i < 100; i++) statuses.push((await ask(port, i % 2 ? 'GET' : 'POST', '/', ALICE, i % 2 ? undefined : 'a body')).status)
    expect(statuses).toEqual([...Array<number>(50).fill(200), ...Array<number>(50).fill(429)])
    if (noKeepAlive) expect(gate.connections).toBe(100)
    else expect(gate.connections).toBeLessThanOrEqual(4)
  })

  test('takes no more than the limit allows from many requests at once', async () => {
    const { port, backend } = await behind(gateway, await edgeAllowing(20))
    const answers = await Promise.all(Array.from({ length: 50 }, () => ask(port, 'GET', '/', ALICE)))
    const statuses = answers.map(({ status }) => status).sort()
    expect(statuses).toEqual([...Array<number>(20).fill(200), ...Array<number>(30).fill(429)])
    expect(backend.seen).toHaveLength(20)
  })

  sendsNoQuestionToTheBackend(gateway)
}

/** A gateway that mixes up its connections asks the backend, which allows everything. The busier it is, the sooner it does. */
export function sendsNoQuestionToTheBackend(gateway: Gateway): void {
  test('sends no question to the backend while connections to edge come and go', async () => {
    const asked = await edgeThatHangsUp(gateway)
    const { port, backend } = await behind(gateway, asked)
    let unsent = 3000
    let allowed = 0
    const client = async (): Promise<void> => {
      while (unsent-- > 0) {
        const { status } = await ask(port, 'GET', '/original', ALICE)
        if (status === 200) allowed++
      }
    }
    await Promise.all(Array.from({ length: 50 }, client))
    expect(backend.seen.map(({ url }) => url).filter((url) => url !== '/original')).toEqual([])
    // On a busy machine some questions take longer than a second.
    expect(allowed).toBeGreaterThan(1000)
    expect(asked.seen.length).toBeGreaterThanOrEqual(allowed)
  })
}

/** Allows everything, and ends every other connection: a gateway that keeps them waits for a new one and for an old one at once. */
function edgeThatHangsUp(gateway: Gateway): Promise<RecordingEdge> {
  if (isGrpc(gateway)) return recordingEdge(gateway)
  let questions = 0
  return HttpBackend.start((_req, res) => {
    const fields = questions++ % 2 === 0 ? { Connection: 'close' } : {}
    res.writeHead(200, { 'Content-Length': 0, ...fields }).end()
  })
}
