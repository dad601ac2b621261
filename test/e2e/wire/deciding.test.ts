import { describe, expect, onTestFinished, test } from 'vitest'
import { bucketRule, bundle, policy } from '../../support/bundles/bundles.ts'
import { RawClient } from '../../support/proxy/proxy.ts'
import { ask } from '../../support/service/http.ts'
import { type ListeningServer, startServer } from '../../support/service/two-wires.ts'
import { decisionBytes, original, readAnswers } from '../../support/service/wire.ts'
import { AsyncStore } from '../../support/store/async-store.ts'
import { MapStore } from '../../support/store/map-store.ts'
import { until } from '../../support/until.ts'

const BUNDLE = bundle(1, policy('p', { rules: [bucketRule('caller', ['header:x-caller'], 2)] }))

describe('while a decision is not made', () => {
  test('nothing more is read: pipelined questions are asked one by one and answered in order', async () => {
    const { store, client } = await begin()
    client.send(Buffer.concat([...['a', 'a', 'b', 'a'].map(question), question('b')]))
    for (let asked = 1; asked <= 5; asked++) {
      await until(() => store.waiting === 1)
      expect(statuses(client)).toHaveLength(asked - 1)
      await store.answer()
    }
    await until(() => statuses(client).length === 5)
    expect(statuses(client)).toEqual([200, 200, 200, 429, 200])
  })

  test('what arrives meanwhile, in pieces, is asked afterwards and in order', async () => {
    const { server, store, client } = await begin()
    const [first, second, third] = [question('a'), question('b'), question('a')]
    client.send(first!)
    await until(() => store.waiting === 1)
    // A question of somebody else is answered only after what was sent before it has been read.
    for (const piece of [second!.subarray(0, 20), second!.subarray(20), third!]) {
      client.send(piece)
      expect((await ask(server.port, 'GET', '/livez')).status).toBe(200)
    }
    expect([store.waiting, client.received]).toEqual([1, ''])
    for (let asked = 1; asked <= 3; asked++) {
      await until(() => store.waiting === 1)
      await store.answer()
    }
    await until(() => statuses(client).length === 3)
    expect(remaining(client)).toEqual(['1', '1', '0'])
  })

  test('a client that ends its side meanwhile still gets the answer', async () => {
    const { server, store, client } = await begin()
    client.send(question('a'))
    await until(() => store.waiting === 1)
    client.socket.end()
    expect((await ask(server.port, 'GET', '/livez')).status).toBe(200)
    await store.answer()
    await client.closed()
    expect(statuses(client)).toEqual([200])
  })

  test('a client that asks on and on meanwhile is not read, and all of it is answered', async () => {
    const { server, store, client } = await begin()
    client.send(question('a'))
    await until(() => store.waiting === 1)
    const count = 2000
    client.send(Buffer.concat(Array.from({ length: count }, (_, i) => question(`caller-${i}`))))
    expect((await ask(server.port, 'GET', '/livez')).status).toBe(200)
    expect(store.waiting).toBe(1)
    await until(async () => {
      await store.answerAll()
      return statuses(client).length === count + 1
    })
    expect(new Set(statuses(client))).toEqual(new Set([200]))
  })

  test('other connections have theirs made, each on its own head', async () => {
    const { server, store, client } = await begin()
    const others = ['b', 'a', 'c'].map((caller) => {
      const other = RawClient.connect(server.port)
      other.send(question(caller))
      return other
    })
    client.send(Buffer.concat([question('a'), question('a')]))
    await until(() => store.waiting === 4)
    await until(async () => {
      await store.answerAll((count) => count - 1)
      return [client, ...others].every((each, i) => statuses(each).length === (i === 0 ? 2 : 1))
    })
    expect([remaining(others[0]!), remaining(others[2]!)]).toEqual([['1'], ['1']])
    // Caller a has two tokens and asked three times; whose question came last is not known.
    expect([...statuses(client), ...statuses(others[1]!)].sort()).toEqual([200, 200, 429])
  })

  test('its head stays as it is: what is looked up later is found in it, and in no other', async () => {
    const shadow = policy('later', { mode: 'shadow', rules: [bucketRule('team', ['header:x-team'], 10)] })
    const { server, store, client } = await begin(bundle(1, shadow, policy('p', { rules: [bucketRule('caller', [], 10)] })))
    const other = RawClient.connect(server.port)
    client.send(decisionBytes(original('/', ['X-Team', 't'])))
    await until(() => store.waiting === 1)
    other.send(decisionBytes(original('/', ['X-Rest', 't'])))
    await until(() => store.waiting === 2)
    await until(async () => {
      await store.answerAll()
      return statuses(client).length + statuses(other).length === 2
    })
    const { body } = await ask(server.port, 'GET', '/metrics')
    expect(body).toContain('edge_descriptor_missing_total{key="header:x-team"} 1\n')
  })

  test('a client that ends its side still gets the answer, and what it asked behind it', async () => {
    const { store, client } = await begin()
    client.send(Buffer.concat([question('a'), question('b')]))
    client.socket.end()
    await until(() => store.waiting === 1)
    await store.answer()
    await until(() => store.waiting === 1)
    await store.answer()
    await client.closed()
    expect(statuses(client)).toEqual([200, 200])
  })

  test('a client that goes away harms nobody', async () => {
    const { server, store, client } = await begin()
    client.send(Buffer.concat([question('a'), question('a')]))
    await until(() => store.waiting === 1)
    client.socket.resetAndDestroy()
    await client.closed()
    await store.answerAll()
    expect((await ask(server.port, 'GET', '/livez')).status).toBe(200)
    expect(store.waiting).toBe(0)
  })

  test('a server that closes waits for it, and then ends the connection', async () => {
    const { server, store, client } = await begin()
    client.send(question('a'))
    await until(() => store.waiting === 1)
    const closed = server.close()
    await store.answer()
    await closed
    expect(await client.closed()).toContain(' 200 ')
  })

  test('a request of another kind behind it keeps its place', async () => {
    const { store, client } = await begin()
    client.send(Buffer.concat([question('a'), Buffer.from('GET /livez HTTP/1.1\r\nHost: edge\r\n\r\n'), question('a')]))
    await until(() => store.waiting === 1)
    expect(client.received).toBe('')
    await store.answer()
    await until(() => store.waiting === 1)
    await store.answer()
    await client.sees('RateLimit-Remaining: 0')
    expect(client.received.match(/HTTP\/1\.1 200 OK|ok(?=HTTP|$)/g)).toHaveLength(4)
  })
})

describe('a decision that fails', () => {
  test.each([
    ['at once', (): never => fail()],
    ['later', (): Promise<never> => Promise.reject(new Error('the store is gone'))],
  ])('%s: 500 internal_error on both wires, and the connection goes on', async (_when, takeAll) => {
    for (const hasFastWire of [true, false]) {
      const store = new MapStore()
      const server = await startServer(BUNDLE, { hasFastWire, store: Object.assign(store, { takeAll }) })
      onTestFinished(() => server.close())
      const client = RawClient.connect(server.port)
      client.send(Buffer.concat([question('a'), decisionBytes(original('/'))]))
      await until(() => statuses(client).length === 2)
      expect(readAnswers(client.received)).toMatchObject([
        { status: 500, headers: { 'x-edge-reason': 'internal_error', connection: 'keep-alive' } },
        { status: 200 },
      ])
    }
  })
})

async function begin(policies = BUNDLE): Promise<{ server: ListeningServer; store: AsyncStore; client: RawClient }> {
  const store = new AsyncStore()
  const server = await startServer(policies, { hasFastWire: true, store })
  onTestFinished(() => server.close())
  return { server, store, client: RawClient.connect(server.port) }
}

function question(caller: string): Buffer {
  return decisionBytes(original('/', ['X-Caller', caller]))
}

function statuses(client: RawClient): number[] {
  return readAnswers(client.received).map(({ status }) => status)
}

function remaining(client: RawClient): (string | undefined)[] {
  return readAnswers(client.received).map(({ headers }) => headers['ratelimit-remaining'])
}

function fail(): never {
  throw new Error('the store is broken')
}
