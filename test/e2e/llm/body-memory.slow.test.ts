import { describe, expect, test } from 'vitest'
import { bucketRule, llmRule, policy } from '../../support/bundles/bundles.ts'
import { CHAT, HELLO, HELLO_TOKENS, type LlmProxy } from '../../support/llm/llm-proxy.ts'
import {
  BODY,
  BY_USER,
  bodyOf,
  bounded,
  by,
  chunk,
  KIB,
  keepingBodies,
  MAX_TOKENS,
  SILENCE_MS,
  stopping,
  untilHeld,
  untilRead,
} from '../../support/llm/short-body-memory.ts'
import { RawClient, statusesIn } from '../../support/proxy/proxy.ts'
import { until } from '../../support/until.ts'

describe('where EDGE_BODY_MEMORY is short', () => {
  test('heads that announce a body and bring nothing of it hold up the others for a second', async () => {
    const proxy = await bounded({ EDGE_BODY_MEMORY: '128k', EDGE_MAX_BODY_BYTES: '128k' })
    const silent = stopping(proxy, BODY, 0)
    await untilHeld(proxy, BODY, 0)
    const answer = proxy.post(CHAT, bodyOf(BODY))
    await untilHeld(proxy, BODY, 1)
    proxy.clock.advance(1100)
    expect((await answer).status).toBe(200)
    expect(statusesIn(silent.received)).toEqual([408])
  })

  test('uploads that go on are not ended for new ones, which wait for them', async () => {
    const proxy = await bounded({ EDGE_BODY_MEMORY: '128k', EDGE_MAX_BODY_BYTES: '128k' })
    const going = stopping(proxy, BODY, 0)
    await untilHeld(proxy, BODY, 0)
    const waiting = proxy.post(CHAT, bodyOf(BODY))
    await untilHeld(proxy, BODY, 1)
    const body = bodyOf(BODY)
    for (let second = 0; second < 8; second++) {
      going.send(body.slice((second * BODY) / 8, ((second + 1) * BODY) / 8))
      await untilRead(proxy, [going])
      proxy.clock.advance(1000)
    }
    await going.sees('hello')
    expect(statusesIn(going.received)).toEqual([200])
    expect((await waiting).status).toBe(200)
  })

  test('uploads in chunks that wait for one another: one ends, the other goes on', async () => {
    const proxy = await bounded({ EDGE_BODY_MEMORY: '256k', EDGE_MAX_BODY_BYTES: '256k' })
    const body = bodyOf(200 * KIB)
    const clients = [0, 1].map(() => {
      const client = RawClient.connect(proxy.port)
      client.send(`POST ${CHAT} HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n`)
      return client
    })
    await untilHeld(proxy, 128 * KIB, 0)
    for (const client of clients) client.send(`${(100 * KIB).toString(16)}\r\n${body.slice(0, 100 * KIB)}\r\n`)
    await untilHeld(proxy, 256 * KIB, 0)
    for (const client of clients) client.send(`${(100 * KIB).toString(16)}\r\n${body.slice(100 * KIB)}\r\n0\r\n\r\n`)
    await untilHeld(proxy, 256 * KIB, 2)

    proxy.clock.advance(SILENCE_MS)
    await until(() => clients.every(({ received }) => received !== ''))
    expect(clients.map(({ received }) => statusesIn(received)[0]).sort()).toEqual([200, 408])
    expect((await proxy.spent()).day).toBe(HELLO_TOKENS + MAX_TOKENS)
    await untilHeld(proxy, 0, 0)
  })

  describe('an upload in chunks whose last piece waits for memory', () => {
    /** It waited before, and its end is there: 145 KiB, of which the first 128 are granted. */
    async function lastPieceWaits(seen: Buffer[]): Promise<{ proxy: LlmProxy; client: RawClient; holder: RawClient; body: string }> {
      const proxy = await bounded({ EDGE_BODY_MEMORY: '256k', EDGE_MAX_BODY_BYTES: '256k' }, {}, keepingBodies(seen))
      const holders = [0, 1].map(() => stopping(proxy, 80 * KIB, 1))
      const client = RawClient.connect(proxy.port)
      client.send(`POST ${CHAT} HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n`)
      await untilHeld(proxy, 224 * KIB, 0)
      const body = bodyOf(145 * KIB)
      client.send(chunk(body.slice(0, 50 * KIB)) + chunk(body.slice(50 * KIB, 100 * KIB)))
      await untilHeld(proxy, 224 * KIB, 1)
      client.send(`${chunk(body.slice(100 * KIB))}0\r\n\r\n`)
      await untilRead(proxy, [client])
      holders[0]!.socket.destroy()
      await untilHeld(proxy, 208 * KIB, 1)
      return { proxy, client, holder: holders[1]!, body }
    }

    test('reaches the backend whole', async () => {
      const seen: Buffer[] = []
      const { proxy, client, holder, body } = await lastPieceWaits(seen)
      holder.socket.destroy()
      await client.sees('hello')
      expect(seen.map((bytes) => bytes.equals(Buffer.from(body)))).toEqual([true])
      await untilHeld(proxy, 0, 0)
    })

    test('is forgotten when its client resets the connection', async () => {
      const seen: Buffer[] = []
      const { proxy, client, holder } = await lastPieceWaits(seen)
      client.socket.resetAndDestroy()
      await untilHeld(proxy, 80 * KIB, 0)
      holder.socket.destroy()
      await untilHeld(proxy, 0, 0)
      expect([seen, (await proxy.spent()).day]).toEqual([[], 0])
    })
  })

  test('a client that waits for leave to send its body gets it when there is memory for it', async () => {
    const proxy = await bounded({ EDGE_BODY_MEMORY: '128k', EDGE_MAX_BODY_BYTES: '128k' })
    const holder = stopping(proxy, BODY, 1)
    await untilHeld(proxy, BODY, 0)
    const client = RawClient.connect(proxy.port)
    client.send(`POST ${CHAT} HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: ${KIB}\r\n\r\n`)
    await untilHeld(proxy, BODY, 1)
    expect(client.received).toBe('')
    holder.socket.destroy()
    await client.sees('HTTP/1.1 100 Continue\r\n\r\n')
    client.send(bodyOf(KIB))
    await client.sees('hello')
    await untilHeld(proxy, 0, 0)
  })

  test('more than 256, and more than 64 of one caller, do not even wait', async () => {
    const proxy = await bounded({ EDGE_BODY_MEMORY: '128k', EDGE_MAX_BODY_BYTES: '128k' }, BY_USER)
    stopping(proxy, BODY, 1)
    await untilHeld(proxy, BODY, 0)
    for (let i = 0; i < 64; i++) stopping(proxy, KIB, 0, CHAT, by('mallory'))
    await untilHeld(proxy, BODY, 64)
    expect((await proxy.post(CHAT, bodyOf(KIB), by('mallory'))).headers['x-edge-reason']).toBe('body_memory_exhausted')
    for (let i = 64; i < 256; i++) stopping(proxy, KIB, 0, CHAT, by(`user${i}`))
    await untilHeld(proxy, BODY, 256)
    expect((await proxy.post(CHAT, bodyOf(KIB), by('alice'))).headers['x-edge-reason']).toBe('body_memory_exhausted')
  })

  test('what the head alone decides needs no memory', async () => {
    const plain = policy('plain', { selector: { pathPrefix: '/plain' }, rules: [bucketRule('none', [], 1, 0.001)] })
    const proxy = await bounded({ EDGE_BODY_MEMORY: '128k', EDGE_MAX_BODY_BYTES: '128k' }, { policies: [plain] })
    expect((await proxy.post('/plain', bodyOf(KIB))).status).toBe(200)
    stopping(proxy, BODY, 1)
    await untilHeld(proxy, BODY, 0)
    expect((await proxy.post('/plain', bodyOf(KIB))).headers['x-edge-reason']).toBe('token_bucket_exceeded')
    expect((await proxy.post(CHAT, bodyOf(2 * BODY))).headers['x-edge-reason']).toBe('body_too_large')
  })
})

describe('a budget in shadow mode', () => {
  const shadow = { mode: 'shadow' } as const

  test('an upload in chunks that finds no more memory passes on as it is', async () => {
    const seen: Buffer[] = []
    const proxy = await bounded({ EDGE_BODY_MEMORY: '128k', EDGE_MAX_BODY_BYTES: '128k' }, shadow, keepingBodies(seen))
    stopping(proxy, 50 * KIB, 1)
    const body = bodyOf(120 * KIB)
    const client = RawClient.connect(proxy.port)
    client.send(`POST ${CHAT} HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n`)
    await untilHeld(proxy, 114 * KIB, 0)
    client.send(`${chunk(body.slice(0, 70 * KIB))}`)
    await untilHeld(proxy, 50 * KIB, 0)
    client.send(`${chunk(body.slice(70 * KIB))}0\r\n\r\n`)
    await client.sees('hello')
    expect(statusesIn(client.received)).toEqual([200])
    expect(seen[0]!.equals(Buffer.from(body))).toBe(true)
  })

  test('a pipelined upload in chunks that finds no memory passes on as it is, though all of it was there', async () => {
    const seen: Buffer[] = []
    const proxy = await bounded({ EDGE_BODY_MEMORY: '1k', EDGE_MAX_BODY_BYTES: '1k' }, shadow, keepingBodies(seen))
    const head = `POST ${CHAT} HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n`
    const body = bodyOf(2 * KIB)
    const client = RawClient.connect(proxy.port)
    client.send(`${head}${chunk(body)}0\r\n\r\n`.repeat(3))
    await until(() => statusesIn(client.received).length === 3)
    expect(seen.map((bytes) => bytes.equals(Buffer.from(body)))).toEqual([true, true, true])
  })

  test('an upload that stops passes on as it is when others wait for its memory', async () => {
    const seen: Buffer[] = []
    const selector = { pathPrefix: '/enforced' }
    const enforced = policy('enforced', { selector, rules: [llmRule('e', [], { tokens_per_minute: 1000 })] })
    const env = { EDGE_BODY_MEMORY: '100k', EDGE_MAX_BODY_BYTES: '100k' }
    const proxy = await bounded(env, { ...shadow, policies: [enforced] }, keepingBodies(seen))
    const body = bodyOf(100 * KIB)
    const client = stopping(proxy, 100 * KIB, 50 * KIB)
    await untilHeld(proxy, 100 * KIB, 0)
    const answer = proxy.post('/enforced', bodyOf(90 * KIB))
    await untilHeld(proxy, 100 * KIB, 1)
    await untilRead(proxy, [client])
    proxy.clock.advance(SILENCE_MS)
    expect((await answer).status).toBe(200)
    client.send(body.slice(50 * KIB))
    await client.sees('hello')
    expect(statusesIn(client.received)).toEqual([200])
    expect(seen[1]!.equals(Buffer.from(body))).toBe(true)
  })
})

describe('at rest no memory is claimed', () => {
  test('whatever became of the requests', async () => {
    const proxy = await bounded({ EDGE_BODY_MEMORY: '1m', EDGE_MAX_BODY_BYTES: '1m' }, {}, async (req, res, seen) => {
      if (req.url === '/late') return
      if (req.url === '/reset') return void req.socket.resetAndDestroy()
      if (req.url === '/early') return void res.writeHead(200).flushHeaders()
      await seen.body()
      res.end('hello')
    })
    const waitsForBackend = stopping(proxy, KIB, KIB, '/late')
    const streams = stopping(proxy, KIB, KIB, '/early')
    await streams.sees('HTTP/1.1 200')
    await untilHeld(proxy, 0, 0)
    const inTheMiddle = stopping(proxy, 900 * KIB, 450 * KIB)
    const inChunks = RawClient.connect(proxy.port)
    inChunks.send(`POST ${CHAT} HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n${chunk('{')}`)
    await untilHeld(proxy, 900 * KIB + 64 * KIB, 0)
    const waitsForMemory = stopping(proxy, 900 * KIB, 0)
    await untilHeld(proxy, 900 * KIB + 64 * KIB, 1)

    expect((await proxy.post('/reset', bodyOf(KIB))).headers['x-edge-reason']).toBe('backend_reset')
    const badGzip = await proxy.post(CHAT, bodyOf(KIB), [['Content-Encoding', 'gzip']])
    expect(badGzip.headers['x-edge-reason']).toBe('bad_request')
    const overBudget = await proxy.post(CHAT, JSON.stringify({ messages: HELLO, max_tokens: 100_000_000 }))
    expect(overBudget.status).toBe(429)
    await untilHeld(proxy, 900 * KIB + 64 * KIB, 1)
    for (const client of [waitsForBackend, streams, inTheMiddle, inChunks, waitsForMemory]) client.socket.destroy()
    await untilHeld(proxy, 0, 0)
    expect((await proxy.post(CHAT, bodyOf(1024 * KIB))).status).toBe(200)
    await untilHeld(proxy, 0, 0)
  })
})

test('a body is let go of when the head of its answer has come: open streams hold no memory', async () => {
  const proxy = await bounded({ EDGE_BODY_MEMORY: '128k', EDGE_MAX_BODY_BYTES: '128k' }, {}, async (_req, res, seen) => {
    await seen.body()
    res.writeHead(200, { 'Content-Type': 'text/event-stream' }).write(': open\n\n')
  })
  const clients: RawClient[] = []
  for (let i = 0; i < 8; i++) {
    const client = stopping(proxy, BODY, BODY)
    clients.push(client)
    await client.sees(': open')
  }
  await untilHeld(proxy, 0, 0)
  expect(clients.every(({ isClosed }) => !isClosed)).toBe(true)
})
